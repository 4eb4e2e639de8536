import os
import sys
import time

here, there = (int(word) for word in sys.argv[1:])
to_read, to_write = os.pipe()
answers_read, answers_write = os.pipe()
if os.fork() == 0:
    os.sched_setaffinity(0, {there})
    for _ in range(500):
        os.read(to_read, 1)
        os.write(answers_write, b"x")
    os._exit(0)
os.sched_setaffinity(0, {here})
for _ in range(500):
    time.sleep(0.0003)
    os.write(to_write, b"x")
    os.read(answers_read, 1)
