import queue
import threading
import time

there: queue.Queue[int | None] = queue.Queue()
back: queue.Queue[int] = queue.Queue()


def echo() -> None:
    while (word := there.get()) is not None:
        back.put(word)


thread = threading.Thread(target=echo)
thread.start()
for word in range(50):
    there.put(word)
    back.get()
there.put(None)
thread.join()
time.sleep(0.01)
