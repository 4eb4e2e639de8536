import os
import threading
import time


def work() -> None:
    for _ in range(40):
        for _ in range(300):
            os.getppid()
        time.sleep(0.01)


for _ in range(8):
    threading.Thread(target=work).start()
    time.sleep(0.03)
