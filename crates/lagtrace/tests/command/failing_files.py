"""Runs a command in a file system in memory that refuses one operation.

    failing_files.py FOLDER OPERATION ERROR FILE COMMAND...

FOLDER is where it is mounted, in the mount namespace of this process. OPERATION is `write`, `flush`
(which is `close(2)`), `fsync`, `read` or `none`; ERROR is what it returns, such as EIO. A read fails
only behind the first bytes of a file (READABLE). The file system has a copy of FILE, and a file `out`
with the text `old`. In the end, prints the exit code, the beginning of `out`, and all names.

It speaks the kernel's protocol (`linux/fuse.h`) itself, so it needs no package.
"""

import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import threading

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN = 1, 2, 3, 4, 10, 12, 14
READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 15, 16, 17, 18, 20, 25, 26
OPENDIR, READDIR, RELEASEDIR, CREATE, INTERRUPT, BATCH_FORGET = 27, 28, 29, 35, 36, 42
REFUSED = {"write": WRITE, "flush": FLUSH, "fsync": FSYNC, "read": READ, "none": None}
# These are told, and have no answer.
SILENT = (FORGET, BATCH_FORGET, INTERRUPT)
# Number of bytes of a file that can be read although reading fails.
READABLE = 8 << 10
ROOT = 1
BUFFER = 1 << 20


class File:
    """A file or folder."""

    def __init__(self, mode, data=b""):
        self.mode, self.user, self.group, self.data = mode, 0, 0, bytearray(data)


class Files:
    """All files, and the operation that fails."""

    def __init__(self, operation, error):
        self.refused, self.error = REFUSED[operation], getattr(errno, error, 0)
        self.files, self.names = {ROOT: File(stat.S_IFDIR | 0o777)}, {}

    def add(self, name, mode, data=b""):
        number = max(self.files) + 1
        self.files[number] = File(stat.S_IFREG | mode, data)
        self.names[name] = number

    def about(self, number):
        file = self.files[number]
        shape = (number, len(file.data), len(file.data) // 512 + 1, 0, 0, 0)
        owner = (file.mode, 1, file.user, file.group, 0, 4096, 0)
        return struct.pack("<6Q10I", *shape, 0, 0, 0, *owner)

    def entry(self, name):
        if name not in self.names:
            raise OSError(errno.ENOENT, name)
        number = self.names[name]
        return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + self.about(number)

    def change(self, number, body):
        file = self.files[number]
        which, size = struct.unpack_from("<I12xQ", body)
        mode, user, group = struct.unpack_from("<I4x2I", body, 68)
        if which & 1:
            file.mode = stat.S_IFMT(file.mode) | mode
        file.user = user if which & 2 else file.user
        file.group = group if which & 4 else file.group
        if which & 8:
            file.data = file.data[:size].ljust(size, b"\0")

    def read(self, number, body):
        at, size = struct.unpack_from("<8xQI", body)
        if self.refused == READ and at >= READABLE:
            raise OSError(self.error, "read")
        return bytes(self.files[number].data[at : at + size])

    def write(self, number, body):
        at, size = struct.unpack_from("<8xQI", body)
        data = self.files[number].data
        data[at : at + size] = body[40 : 40 + size]
        return struct.pack("<2I", size, 0)

    def perform(self, operation, number, body):
        if operation == self.refused != READ:
            raise OSError(self.error, "refused")
        name = body.split(b"\0")[0]
        if operation == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 9, 9, 128 << 10, 1, 0, 0, *[0] * 8)
        if operation == LOOKUP:
            return self.entry(name)
        if operation in (GETATTR, SETATTR):
            if operation == SETATTR:
                self.change(number, body)
            return struct.pack("<Q2I", 0, 0, 0) + self.about(number)
        if operation == CREATE:
            name = body[16:].split(b"\0")[0]
            self.add(name, struct.unpack_from("<4xI", body)[0] & 0o777)
            return self.entry(name) + bytes(16)
        if operation in (OPEN, OPENDIR):
            return bytes(16)
        if operation == READ:
            return self.read(number, body)
        if operation == WRITE:
            return self.write(number, body)
        if operation == UNLINK:
            del self.names[name]
        elif operation == RENAME:
            old, new = body[8:].split(b"\0")[:2]
            self.names[new] = self.names.pop(old)
        elif operation == READDIR:
            return self.folder(body)
        elif operation == STATFS:
            return struct.pack(
                "<5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 99, 4096, 255, 4096, 0
            )
        elif operation not in (RELEASE, RELEASEDIR, FLUSH, FSYNC):
            raise OSError(errno.ENOSYS, "unknown")
        return b""

    def folder(self, body):
        if struct.unpack_from("<8xQ", body)[0] > 0:
            return b""
        entries = b""
        for name, number in self.names.items():
            entry = struct.pack("<2Q2I", number, 1, len(name), stat.S_IFREG >> 12) + name
            entries += entry.ljust((len(entry) + 7) // 8 * 8, b"\0")
        return entries


def mount(folder):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40777,user_id=0,group_id=0,allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    source = kind = b"fuse"
    if libc.mount(source, os.fsencode(folder), kind, 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), folder)
    return device


def serve(device, files):
    while True:
        try:
            request = os.read(device, BUFFER)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        operation, unique, number = struct.unpack_from("<4xIQQ", request)
        if operation in SILENT:
            continue
        refusal, reply = 0, b""
        try:
            reply = files.perform(operation, number, request[40:])
        except OSError as error:
            refusal = -error.errno
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(reply), refusal, unique) + reply)
        except OSError as error:
            # The program has been interrupted meanwhile.
            if error.errno != errno.ENOENT:
                raise


def main():
    folder, operation, error, copy, *command = sys.argv[1:]
    files = Files(operation, error)
    with open(copy, "rb") as file:
        files.add(os.fsencode(os.path.basename(copy)), 0o644, file.read())
    files.add(b"out", 0o644, b"old")
    device = mount(folder)
    threading.Thread(target=serve, args=(device, files), daemon=True).start()
    code = subprocess.run(command, cwd=folder, check=False).returncode
    kept = bytes(files.files[files.names[b"out"]].data[:3])
    names = b" ".join(sorted(files.names))
    print(f"code {code}, {kept!r}, {os.fsdecode(names)}")


main()
