import os
import time


def burn(ns: int) -> None:
    while time.thread_time_ns() < ns:
        pass


for _ in range(4):
    if os.fork() == 0:
        burn(30_000_000)
        os._exit(0)
    os.wait()
burn(60_000_000)
