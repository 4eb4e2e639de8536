from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from headway.testing.asleep import PATIENCE, wait_until_asleep


def test_a_thread_that_sleeps_is_not_waited_for() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name=") R (")
    thread.start()
    assert thread.native_id is not None
    assert wait_until_asleep(os.getpid(), thread.native_id)
    stop.set()
    thread.join()


def test_a_thread_that_is_no_more_is_not_waited_for() -> None:
    assert wait_until_asleep(os.getpid(), 1 << 30)
    assert wait_until_asleep(1 << 30, 1 << 30)


def test_a_thread_that_does_not_sleep_is_waited_for_only_so_long() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass"], stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        began = time.monotonic_ns()
        slept = wait_until_asleep(process.pid, process.pid)
        assert slept or time.monotonic_ns() - began >= PATIENCE
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert wait_until_asleep(process.pid, process.pid)
        process.kill()
