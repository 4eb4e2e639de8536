import time

import headway


def work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@headway.poll("queue")
def ask() -> None:
    work(0.02)


for _ in range(5):
    with headway.noneffective("parse"):
        work(0.03)
    ask()
