#!/usr/bin/env python3
"""Writes a capture of 4,000 exchanges, of which a page shows a part one by one.

Usage: long_capture.py FILE
"""

import sys

from hostile_capture import tcp, write


def packets():
    """Yields times in microseconds and packets: exchanges of two servers, 1 to 5 ms long."""
    at = 1_700_000_000_000_000
    for port in (40_000, 40_001):
        yield at, tcp(True, port, 100, 0, 0x02)
        yield at + 100, tcp(False, port, 500, 101, 0x12)
        here, there = 101, 501
        for number in range(2_000):
            request = b"GET /%d HTTP/1.1\r\nHost: test\r\n\r\n" % number
            response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            at += 1_000
            yield at, tcp(True, port, here, there, 0x18, request)
            here += len(request)
            at += 1_000 + number * 7 % 4_001
            yield at, tcp(False, port, there, here, 0x18, response)
            there += len(response)
            yield at + 100, tcp(True, port, here, there, 0x10)
        at += 1_000


write(sys.argv[1], packets())
