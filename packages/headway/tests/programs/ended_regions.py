import ctypes
import os
import signal

import headway.regions
from headway.linux.regions.blocks import RegionBlocks

with headway.regions.noneffective("x"):
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, which setuid has cleared
    pid = os.fork()
    if pid == 0:
        signal.pause()
    seen = RegionBlocks(pid)
    assert seen.find()
    assert seen.read().reason is None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert seen.read().reason is None, seen.read()
