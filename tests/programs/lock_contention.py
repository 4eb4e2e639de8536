import threading
import time

lock = threading.Lock()
lock.acquire()


def take() -> None:
    with lock:
        pass


thread = threading.Thread(target=take)
thread.start()
time.sleep(0.5)
lock.release()
thread.join()
