"""What is said of a trace of a Linux machine names options of the unit that traced it."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headway.errors import HeadwayError
from headway_trace.disassembly import ARM, X86
from headway_trace.readers.host import HostReader


@pytest.mark.parametrize(("isa", "says"), [(X86, r"intel_pt/tsc/"), (ARM, r"cs_etm/timestamp/")])
def test_an_export_without_times_says_how_to_record_them(isa: str, says: str) -> None:
    def chosen(ids: Iterable[int]) -> list[object]:
        return []

    reader = HostReader("perf.data", cast(Any, SimpleNamespace(isa=isa, chosen=chosen, left_out="")))
    with pytest.raises(HeadwayError, match=says):
        reader.export(())
