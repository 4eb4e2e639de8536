import sys
import threading

lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
