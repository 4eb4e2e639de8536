import sys
import threading


def spin() -> None:
    while True:
        pass


for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
