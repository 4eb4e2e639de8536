import threading
import time

threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
while True:
    sum(range(999))
