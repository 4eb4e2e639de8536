"""Measures and marks with the base install."""

import os

import headway
import headway.extras

with headway.noneffective("parse"), headway.poll("ring"):
    pass
with headway.observe(pid=os.getpid()) as seen:
    assert seen.read().threads
try:
    headway.open  # noqa: B018
except headway.extras.MissingExtraError as error:
    print(error)
