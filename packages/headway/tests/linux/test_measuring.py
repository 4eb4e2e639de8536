"""A source measures from begin() to close(), and says so to whoever asks it for something else."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from headway.linux.options import Selection
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.measuring import MeasuringSource
from headway.linux.sources.proc import ProcSource
from headway.linux.sources.profiler import ProfileSource


class Measurement:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_measurement_is_closed_once_and_then_nothing_is_measured() -> None:
    source = MeasuringSource[Measurement]()
    source._measurement = measurement = Measurement()
    assert source._running is measurement
    source.close()
    source.close()
    assert measurement.closed == 1
    with pytest.raises(RuntimeError, match=r"begin\(\) comes first"):
        _ = source._running


@pytest.mark.parametrize("make", [BpfSource, ProcSource, ProfileSource])
def test_what_is_called_before_begin_says_that(
    make: Callable[[Selection], BpfSource | ProcSource | ProfileSource],
) -> None:
    source = make(Selection(pids=(os.getpid(),)))
    for call in (source.read, source.interval, source.end):
        with pytest.raises(RuntimeError, match=r"begin\(\) comes first"):
            call()
    source.close()
