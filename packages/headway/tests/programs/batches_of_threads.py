import sys
import threading

while sys.stdin.readline():
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    print("started", flush=True)
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join()
    print("ended", flush=True)
