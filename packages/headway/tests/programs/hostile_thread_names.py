import ctypes
import threading
import time

libc = ctypes.CDLL(None)


def named(name: bytes) -> None:
    libc.prctl(15, name)
    time.sleep(600)


for name in (b"<b>bold</b>", b"</script><i>", b"a&lt;b\"'", b"\xe2\x80\xaeevil", b"\x1b[31mred", b"\xff\xfe"):
    threading.Thread(target=named, args=(name,), daemon=True).start()
time.sleep(600)
