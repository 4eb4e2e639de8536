import socket
import sys
import time

a, b = socket.socketpair()
a.setblocking(False)
end = time.monotonic() + 0.8
n = 0
while time.monotonic() < end:
    try:
        a.recv(1)
    except BlockingIOError:
        n += 1
        if n % 5 == 0:
            b.send(b"x")
with open(sys.argv[1], "w") as output:
    output.write(str(n))
