import time


def name(text: str) -> None:
    with open("/proc/self/comm", "w") as comm:
        comm.write(text)


print(flush=True)
input()
name("headway-late")
time.sleep(0.05)
name("headway-other")
print(flush=True)
time.sleep(60)
