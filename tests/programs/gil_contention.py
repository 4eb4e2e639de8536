import threading
import time


def compute() -> None:
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sum(range(1000))


threads = [threading.Thread(target=compute) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
