import threading
import time

from until import until_seen  # type: ignore[import-not-found]

rounds = [0, 0, 0]
handed_over = [0, 0, 0]
stop = False


def compute(me: int) -> None:
    seen = 0
    while not stop:
        sum(range(1000))
        rounds[me] += 1
        others = sum(rounds) - rounds[me]
        handed_over[me] += others != seen
        seen = others


threads = [threading.Thread(target=compute, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
while min(handed_over) < 3:
    time.sleep(0.01)
until_seen()
stop = True
for thread in threads:
    thread.join()
