import threading

from until import until_asleep, until_seen  # type: ignore[import-not-found]

lock = threading.Lock()
lock.acquire()


def take() -> None:
    with lock:
        pass


thread = threading.Thread(target=take)
thread.start()
assert thread.native_id is not None
until_asleep(thread.native_id)
until_seen()
lock.release()
thread.join()
