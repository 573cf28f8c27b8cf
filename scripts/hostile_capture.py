#!/usr/bin/env python3
"""Writes a capture whose requests, header fields and DNS names try to break out of a page.

Usage: hostile_capture.py FILE
"""

import struct
import sys

HOSTILE = [
    "/</script><img src=x onerror=alert(1)>",
    "/'\"><svg/onload=alert(2)>",
    "/<!--<script>alert(3)</script>-->",
    "/]]><style>*{display:none}</style>",
    "/{{7*7}}${alert(4)}`${alert(5)}`",
    "/javascript:alert(6)//%3Cscript%3E",
    "/\u202egnp.exe\u2066\u200b\u00ad",
    "/\x1b[31m\x07\x08\x7f\u0085",
    "/&lt;b&gt;&#60;i&#62;",
    "/\ufffe\U000e0041" + "A" * 900,
]
CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ip(source: bytes, target: bytes, protocol: int, payload: bytes) -> bytes:
    def head(total: int) -> bytes:
        fields = (0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, total)
        return struct.pack("!BBHHHBBH4s4s", *fields, source, target)

    ethernet = bytes(12) + struct.pack("!H", 0x0800)
    return ethernet + head(checksum(head(0))) + payload


def tcp(up: bool, port: int, seq: int, ack: int, flags: int, payload: bytes = b"") -> bytes:
    ports = (port, 80) if up else (80, port)
    segment = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, 65000, 0, 0)
    ends = (CLIENT, SERVER) if up else (SERVER, CLIENT)
    return ip(*ends, 6, segment + payload)


def dns(question: bytes, answer: bool) -> bytes:
    name = b"".join(bytes([len(part)]) + part for part in [question[:63], b"test"]) + b"\0"
    flags = 0x8183 if answer else 0x0100
    message = struct.pack("!HHHHHH", 7, flags, 1, 0, 0, 0) + name + struct.pack("!HH", 1, 1)
    ports = (53, 4000) if answer else (4000, 53)
    datagram = struct.pack("!HHHH", *ports, 8 + len(message), 0) + message
    ends = (SERVER, CLIENT) if answer else (CLIENT, SERVER)
    return ip(*ends, 17, datagram)


def packets():
    """Yields times in microseconds and packets: a slow exchange for each hostile string."""
    at = 1_700_000_000_000_000
    for number, text in enumerate(HOSTILE):
        raw, port = text.encode(), 40_000 + number
        host = text[1:].encode().replace(b"\n", b"")
        yield at, dns(host, answer=False)
        yield at + 90_000, dns(host, answer=True)
        at += 100_000
        yield at, tcp(True, port, 100, 0, 0x02)
        yield at + 100, tcp(False, port, 500, 101, 0x12)
        yield at + 200, tcp(True, port, 101, 501, 0x10)
        here, there = 101, 501
        for _ in range(6):
            request = (
                b"GET " + raw + b" HTTP/1.1\r\nHost: " + host + b"\r\nCookie: " + raw + b"\r\n\r\n"
            )
            response = (
                b"HTTP/1.1 200 " + raw + b"\r\nServer: " + raw + b"\r\nContent-Length: 2\r\n\r\nok"
            )
            at += 1_000
            yield at, tcp(True, port, here, there, 0x18, request)
            here += len(request)
            yield at + 100, tcp(False, port, there, here, 0x10)
            at += 80_000
            yield at, tcp(False, port, there, here, 0x18, response)
            there += len(response)
            yield at + 100, tcp(True, port, here, there, 0x10)
        at += 1_000


def write(name: str, timed) -> None:
    """Writes packets with their times as a pcap file."""
    with open(name, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, packet in timed:
            file.write(
                struct.pack("<IIII", at // 1_000_000, at % 1_000_000, len(packet), len(packet))
            )
            file.write(packet)


if __name__ == "__main__":
    write(sys.argv[1], packets())
