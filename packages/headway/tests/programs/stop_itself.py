import os
import signal
import time

p = os.getpid()
if os.fork() == 0:
    while os.getppid() == p:
        time.sleep(0.1)
        os.kill(p, signal.SIGCONT)
    os._exit(0)
os.kill(p, signal.SIGSTOP)
