"""Four threads that produce, and one that consumes what they made."""

import hashlib
import queue
import threading
import time

q: queue.Queue[str] = queue.Queue(4)


def produce() -> None:
    for _ in range(25):
        q.put(hashlib.sha256(b"x" * 20000).hexdigest())
        time.sleep(0.001)


def consume() -> None:
    for _ in range(100):
        q.get()


threads = [threading.Thread(target=produce) for _ in range(4)] + [threading.Thread(target=consume)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
