"""Has four threads, one of which computes; says when all are there."""

import threading
import time


def spin() -> None:
    while True:
        pass


for work in (spin, lambda: time.sleep(60), lambda: threading.Event().wait(60)):
    threading.Thread(target=work).start()
print(flush=True)
time.sleep(60)
