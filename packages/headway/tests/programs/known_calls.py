"""Do what is known beforehand with files and sockets: ``known_calls.py FOLDER``. Prints the ports of both sockets."""

import contextlib
import os
import socket
import sys
import threading

folder = sys.argv[1]
file, missing = os.path.join(folder, "file with a name"), os.path.join(folder, "missing")
fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
for _ in range(30):
    os.write(fd, b"x" * 100)
os.lseek(fd, 0, os.SEEK_SET)
for _ in range(10):
    os.read(fd, 50)
os.fdatasync(fd)
os.close(fd)
for _ in range(7):
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(missing)
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()


def answer() -> None:
    """Answer five questions."""
    for _ in range(5):
        asked = server.recv(64)
        server.sendall(asked * 100)


thread = threading.Thread(target=answer)
thread.start()
for _ in range(5):
    client.sendall(b"question")
    got = 0
    while got < 800:
        got += len(client.recv(4096))
thread.join()
print(listener.getsockname()[1], client.getsockname()[1])
