"""Reads and syncs a file that another process serves (FUSE), and reads one of /proc: each when it is seen to wait.

`fuse_file.py FOLDER`: an empty folder, to mount on. Ends with status 77 where it may not mount.
"""

import ctypes
import os
import struct
import sys
import threading

from until import until_asleep, until_seen  # type: ignore[import-not-found]

FOLDER = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)
FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42


def attributes(node: int) -> bytes:
    """struct fuse_attr: the root is a folder, and 2 a file of 5 bytes."""
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 5)
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(operation: int, node: int, reader: int) -> bytes | None:
    """What the kernel is told; None: the operation is not there."""
    if operation == 1:  # LOOKUP
        return struct.pack("<4Q2I", 2, 0, 9, 9, 0, 0) + attributes(2)
    if operation == 3:  # GETATTR
        return struct.pack("<Q2I", 9, 0, 0) + attributes(node)
    if operation == 14:  # OPEN
        return struct.pack("<Q2I", 0, 0, 0)
    if operation in (15, 20):  # READ, FSYNC
        until_asleep(reader)
        until_seen()
        return b"hello" if operation == 15 else b""
    if operation == 26:  # INIT: version 7.31
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, *[0] * 8)
    return b"" if operation in (18, 25) else None  # RELEASE, FLUSH


def serve(device: int, reader: int) -> None:
    """Answer until the file system is gone."""
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            os._exit(0)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        if operation in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        data = answer(operation, node, reader)
        os.write(device, struct.pack("<IiQ", 16 + len(data or b""), -38 if data is None else 0, unique) + (data or b""))


device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if LIBC.mount(b"served", FOLDER.encode(), b"fuse", 0, options):
    sys.exit(77)
try:
    if os.fork() == 0:
        serve(device, os.getppid())
    os.close(device)
    with open(f"{FOLDER}/served", "rb", buffering=0) as file:
        file.read(5)
        os.fsync(file.fileno())
finally:
    LIBC.umount2(FOLDER.encode(), 2)
os.wait()

messages = os.open("/proc/kmsg", os.O_RDONLY | os.O_NONBLOCK)
try:
    while os.read(messages, 1 << 16):
        pass
except BlockingIOError:
    os.set_blocking(messages, True)


def write() -> None:
    until_asleep(os.getpid())
    until_seen()
    with open("/dev/kmsg", "w") as kernel:
        kernel.write("headway: a test reads this\n")


thread = threading.Thread(target=write)
thread.start()
os.read(messages, 1 << 16)
thread.join()
