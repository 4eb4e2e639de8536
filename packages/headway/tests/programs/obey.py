"""Does what it is told, line by line, and says when it is done; what it imports is for the lines."""

import os  # noqa: F401
import sys
import threading
import time
from collections.abc import Callable


def burn(ns: int) -> None:
    while time.thread_time_ns() < ns:
        pass


def on_thread(function: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


for line in sys.stdin:
    exec(line)
    print("done", flush=True)
