import sys
import threading

import _interpreters  # type: ignore[import-not-found]

spin = """
import threading
def spin():
    while True: pass
threads = [threading.Thread(target=spin) for _ in range(3)]
for each in threads: each.start()
"""
threading.Thread(target=_interpreters.exec, args=(_interpreters.create("isolated"), spin), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
