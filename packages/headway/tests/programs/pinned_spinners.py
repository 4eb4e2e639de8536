"""Spin for some seconds on one processor: by ``threads`` of one process, or in two ``processes``.

Of a command line ``pinned_spinners.py threads|processes|alone SECONDS [NAME]``. Its threads have this name, ``pinned``
if none is given, and come before those of other programs, as far as may be.
"""

import contextlib
import os
import sys
import threading
import time


def spin(until: float) -> None:
    """Use the processor. Hashing gives up the interpreter's lock, so threads want the processor at the same time."""
    import hashlib

    data = bytes(1 << 20)
    while time.monotonic() < until:
        hashlib.sha256(data).digest()


def main(how: str, seconds: float, name: str = "pinned") -> None:
    with open("/proc/self/comm", "w") as comm:
        comm.write(name)
    with contextlib.suppress(OSError):
        if how == "alone":
            os.nice(-20)
        else:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    until = time.monotonic() + seconds
    if how == "threads":
        other = threading.Thread(target=spin, args=(until,))
        other.start()
        spin(until)
        other.join()
    elif how == "processes":
        child = os.fork()
        spin(until)
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    else:
        spin(until)


main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
