"""A source that takes a profile beside its ledger.

The ledger says how much time each thread had in each state, and the profile says where in the program that was. On the
processor, the kernel samples each thread at intervals of its processor time, into a buffer of its own. An eBPF program
reports the thread's state at the sample. Off the processor, the eBPF programs add up the time by stack, exactly.
Without eBPF there are only the samples, of user code and of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger, Profile

from ..choose import may_unwind, start_source
from ..measuring import MeasuringSource
from .assembling import FinishedProfile
from .measurement import Buffers, ProfileMeasurement

__all__ = ["DEFAULT_FREQUENCY", "Buffers", "ProfileSource"]

DEFAULT_FREQUENCY = 997
"""Samples a second of processor time: a prime, so that no period of a program's or of the kernel's falls in step with
it. Ten seconds of processor time are ten thousand samples, which tell a share of a half to within one per cent."""


class ProfileSource(MeasuringSource[ProfileMeasurement]):
    """Measures a selection of threads, and samples them (`LinuxSource`); `profile` after `end`, also after `close`.

    ``frequency``: samples a second of each thread's processor time. ``buffers``: in which they wait, and when headway
    looks into them. ``spin``: user code that spins is found, and is the state ``poll.spin`` of the profile and of its
    ledger. ``frame_pointers``: user stacks are walked by these, and not by call frame information. ``java_maps``: Java
    processes that live at the end are asked for the names of what they have compiled.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008
        *,
        prefer: str | None = None,
        frequency: int = DEFAULT_FREQUENCY,
        buffers: Buffers = Buffers(),  # noqa: B008
        spin: bool = False,
        frame_pointers: bool = False,
        java_maps: bool = False,
    ) -> None:
        self._selection, self._prefer, self._buffers, self._spin = selection, prefer, buffers, spin
        self._java_maps = java_maps
        self._options = replace(options, stacks=True, unwind=not frame_pointers and may_unwind())
        self.name = "bpf"
        self.period = max(1_000_000_000 // frequency, 1)
        """ns of processor time from one sample to the next."""
        self._finished: FinishedProfile | None = None

    def begin(self) -> None:
        """Start measuring and sampling. Raises HeadwayError; then nothing is left attached."""
        self._measurement = ProfileMeasurement(
            self._selection,
            self._options,
            lambda prepared: start_source(self._selection, self._prefer, options=self._options, prepared=prepared),
            self.period,
            self._buffers,
            spin=self._spin,
            java_maps=self._java_maps,
        )
        self.name = self._measurement.source.name

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when the source has work, or threads have come."""
        return self._running.poll_fds()

    def service(self) -> float | None:
        """Find new threads, and look into the buffers that are due. Return the seconds until the next call."""
        return self._running.service()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait as the source of the ledger does."""
        self._running.source.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return the ledger so far."""
        return self._running.source.read()

    def interval(self) -> Ledger:
        """Return the ledger since the last one; the profile is of all of the time."""
        return self._running.source.interval()

    def end(self) -> Ledger:
        """Return the ledger of all of the time; from now on nothing is measured, and `profile` may be called."""
        self._finished = self._running.finish()
        return self._finished.ledger

    def end_interval(self) -> Ledger:
        """Return the ledger of all of the time, as `end` does: a profile has no intervals."""
        return self.end()

    def profile(self) -> Profile:
        """Return what was sampled and added up until `end`, with names. May take seconds: symbols are read now."""
        if self._finished is None:
            raise RuntimeError("there is no profile yet: end() comes first")
        return self._finished.profile()
