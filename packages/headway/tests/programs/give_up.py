"""Gives up privileges as its argument says, and prints as JSON what it is left with."""

import json
import os
import sys

from headway.linux.privileges import LinuxCapability, give_up, permitted, user_named
from headway.linux.procfs.status import status


def keep_some() -> dict[str, object]:
    """Becomes another user who keeps two capabilities."""
    left = give_up(user_named("nobody"), [LinuxCapability.KILL, LinuxCapability.PERFMON])
    return dict(status("/proc/self"), left=sorted(left))


def come_back() -> dict[str, object]:
    """Becomes another user, and tries to be root again."""
    give_up(user_named("nobody"))
    tried = []
    for call in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.open("/etc/shadow", os.O_RDONLY)):
        try:
            call()
        except PermissionError:
            tried.append("refused")
    su = os.system("id -u > /dev/null; test $(id -u) != 0")
    return {"tried": tried, "su": su, "permitted": list(permitted())}


def keep_none() -> dict[str, object]:
    """Gives up twice, the second time with nothing left to give up."""
    give_up(user_named("nobody") if os.geteuid() == 0 else None)
    give_up(None, [LinuxCapability.BPF])
    return dict(status("/proc/self"), permitted=list(permitted()))


print(json.dumps({"keep_some": keep_some, "come_back": come_back, "keep_none": keep_none}[sys.argv[1]]()))
