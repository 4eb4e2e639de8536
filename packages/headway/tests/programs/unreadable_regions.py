import os
import sys

import headway.linux.bpf.polling.checks
import headway.regions
from headway.linux.options import Selection
from headway.linux.regions.blocks import RegionBlocks
from headway.linux.sources.proc import ProcSource

headway.linux.bpf.polling.checks.load()  # what it imports, this user may not be able to read later
with headway.regions.noneffective("x"):
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        seen = RegionBlocks(parent)
        assert not seen.find()
        assert f"process {parent}" in (seen.read().reason or ""), seen.read()
        source = ProcSource(Selection(pids=(parent,)))
        source.begin()
        assert f"process {parent}" in source.end().reasons["regions_unread"]
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
