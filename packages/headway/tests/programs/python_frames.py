"""Chains of calls of Python that are known: through C functions, generators, threads, and code that is freed at once.

It begins when its standard input ends. Line numbers count: the test reads them here.
"""

import re
import sys
import threading
import time
from collections.abc import Iterator


def spin() -> None:
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        pass  # here the time is
    time.sleep(0.001)  # and here


class Called:
    def by_sorting(self) -> None:
        sorted([1], key=self.key)  # by_sorting calls

    def key(self, _: int) -> int:
        spin()  # key calls
        return 0


def generated() -> Iterator[None]:
    spin()  # generated calls
    yield


def by_generator() -> None:
    for _ in generated():  # by_generator calls
        pass


def substituted(_: re.Match[str]) -> str:
    spin()  # substituted calls
    return ""


def recursive(depth: int) -> None:
    if depth:
        recursive(depth - 1)  # recursive calls
    else:
        spin()  # the last one calls


def threaded() -> None:
    recursive(20)  # threaded calls


def with_lambda() -> None:
    re.sub("a", substituted, "a")  # with_lambda calls


def with_code_that_is_freed() -> None:
    for name in ("first", "second", "third"):
        exec(compile(f"def {name}():\n\n\n    spin()\n{name}()", f"<{name}>", "exec"), {"spin": spin})  # execs


sys.stdin.read()
Called().by_sorting()  # sorts
by_generator()  # generates
with_lambda()  # substitutes
with_code_that_is_freed()  # frees
thread = threading.Thread(target=threaded)
thread.start()
thread.join()
recursive(200)  # too deep
