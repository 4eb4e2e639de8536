"""Measures, marks and simulates with the base install; argv[1] is a program for the machine."""

import os
import sys

import headway
import headway.extras

with headway.noneffective("parse"), headway.poll("ring"):
    pass
with headway.observe(pid=os.getpid()) as seen:
    assert seen.read().threads
assert headway.Machine(cores=1).run(sys.argv[1]).exit_status == 0
try:
    headway.open  # noqa: B018
except headway.extras.MissingExtraError as error:
    print(error)
