"""The kind of time of each state, as the eBPF programs tell it to threads, is the model's."""

from __future__ import annotations

import io
from importlib import resources

from elftools.elf.elffile import ELFFile

from headway.linux.bpf.shared.layout import PUBLISHED_KINDS, STATES
from headway.linux.bpf.shared.states import NAMES
from headway.model import Kind, kind_of

KINDS = {
    Kind.EFFECTIVE: "effective",
    Kind.KERNEL: "kernel",
    Kind.POLL: "poll",
    Kind.READY: "ready",
    Kind.WAIT: "wait",
}


def test_each_state_has_the_kind_that_its_name_says() -> None:
    image = (resources.files("headway.linux") / "bpf" / "progress.bpf.o").read_bytes()
    section = ELFFile(io.BytesIO(image)).get_section_by_name(".data.published_kinds")
    assert section is not None
    table = section.data()
    assert len(table) == STATES["N_STATES"]
    for state in range(STATES["POLL"]):
        name = NAMES[state]
        kind = "undivided" if name == "running" else KINDS.get(kind_of(name), "other")
        assert table[state] == PUBLISHED_KINDS[kind], name
    assert set(table[STATES["POLL"] : STATES["TAG"]]) == {PUBLISHED_KINDS["poll"]}
    assert set(table[STATES["TAG"] :]) == {PUBLISHED_KINDS["kernel"]}, (
        "a region is no progress, unless its name says poll"
    )
