"""Damaged trace files: what can be repaired costs nothing, and what cannot never makes anything up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.examples import config_of, program
from tests.trace.threads.files import DAMAGES, older_file
from tests.trace.threads.runs import run

from headway.errors import HeadwayError
from headway_machine.config import TraceUnitConfig
from headway_machine.image import MachineImage
from headway_trace.threads import container
from headway_trace.threads._mending import WIDTH
from headway_trace.threads.chunks import parity_of
from headway_trace.threads.container import MachineShape, TraceFile, TraceFileWriter, digest_of, has_etrace, is_trace
from headway_trace.threads.reading import Trace, TracedProgram

REPAIRED = ("a byte lost", "a bit flipped", "1 KB doubled", "20 bytes zeroed")
"""Damage that costs nothing, wherever it is."""
MARK = 64
CORES = 3
SHAPE = MachineShape(CORES, 6, strict=True, cycle_accurate=True, window=1024, program="0" * 64, name="a.elf")
ETRACE = {"source_width": 8, "ioptions": ["full_address"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


def streams() -> list[bytes]:
    """Streams whose bytes show of which core they are."""
    draw = random.Random(5)
    return [bytes(64 * core + draw.randrange(1, 64) for _ in range(4000)) for core in range(CORES)]


def written(shape: MachineShape, parts: Sequence[bytes], *, etrace: bool = False) -> bytes:
    """A file with short chunks, so that it has many."""
    stream = BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(container, "_CHUNK", 1500)
        patch.setattr(container, "_SHORT_CHUNK", 1000)
        patch.setattr(container, "_AGAIN", 5)
        writer = TraceFileWriter(stream, shape, ETRACE if etrace else None)
        for at in range(0, max(map(len, parts)), 700):
            for core, data in enumerate(parts):
                writer.add(core, data[at : at + 700])
        writer.close()
    return stream.getvalue()


def read(path: Path, data: bytes) -> tuple[TraceFile, list[bytes]]:
    path.write_bytes(data)
    found = TraceFile(path)
    return found, [b"".join(found.pieces(core)) for core in range(found.shape.cores)]


PARTS = streams()
FILE = written(SHAPE, PARTS)


@given(data=st.binary(max_size=200))
def test_the_parity_is_the_exclusive_or_of_every_36th_byte(data: bytes) -> None:
    columns = bytearray(WIDTH)
    for at, byte in enumerate(data):
        columns[at % WIDTH] ^= byte
    assert parity_of(data) == columns


@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7), what=st.sampled_from(REPAIRED), etrace=st.booleans())
def test_small_damage_and_a_part_that_is_there_twice_cost_nothing(
    folder: Path, at: int, bit: int, what: str, etrace: bool
) -> None:
    sound = written(SHAPE, PARTS, etrace=True) if etrace else FILE
    damaged = DAMAGES[what](sound, at % len(sound), bit)
    found, parts = read(folder / "a.hwt", damaged)
    assert parts == PARTS
    assert (found.shape, found.etrace) == (SHAPE, ETRACE if etrace else None)
    assert has_etrace(folder / "a.hwt") == etrace
    assert found.complete
    assert is_trace(damaged[: 1 << 16])


@pytest.mark.parametrize("bit", range(0, 8, 3))
def test_no_bit_of_any_head_or_of_the_description_matters(folder: Path, bit: int) -> None:
    heads = [at for at in range(len(FILE)) if FILE.startswith((b"\xa9hwc", b"\xa9hwe"), at)]
    assert len(heads) > 20
    places = [*range(400), *range(heads[4], heads[4] + MARK), *range(heads[-1], heads[-1] + MARK)]
    for at in places:
        found, parts = read(folder / "b.hwt", DAMAGES["a bit flipped"](FILE, at, bit))
        assert (parts, found.shape, found.complete) == (PARTS, SHAPE, True), at
        assert at < 8 or any(found.damage.rows())


@given(
    at=st.integers(0, 1 << 20), other=st.integers(0, 1 << 20), bit=st.integers(0, 7),
    what=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=3),
)  # fmt: skip
def test_no_damage_gives_a_core_the_bytes_of_another(
    folder: Path, at: int, other: int, bit: int, what: list[str]
) -> None:
    damaged = FILE
    for place, one in zip((at, other, at // 2 + other // 2), what, strict=False):
        damaged = DAMAGES[one](damaged, place % len(damaged), bit)
    parts = list[bytes]()
    with suppress(HeadwayError):  # nothing of it can be read
        found, parts = read(folder / "c.hwt", damaged)
    for core, part in enumerate(parts):
        alien = b"".join(PARTS[:core] + PARTS[core + 1 :])
        known = {alien[at : at + 12] for at in range(len(alien))}
        assert not any(part[at : at + 12] in known for at in range(len(part)))
    if parts and parts != PARTS:
        assert any(found.damage.rows()) or not found.complete


def test_what_is_lost_is_counted_and_the_rest_is_there(folder: Path) -> None:
    at = len(FILE) // 2
    found, parts = read(folder / "d.hwt", FILE[:at] + FILE[at + 2000 :])
    given, whole = sum(map(len, parts)), sum(map(len, PARTS))
    assert whole - 3 * 1500 <= given < whole
    assert found.damage.damaged
    assert found.damage.missing == whole - given
    assert found.complete
    assert len(found.remarks) == 1
    assert f"{found.damage.missing:,} bytes of its streams are missing" in found.remarks[0]


def test_a_file_that_begins_in_the_middle_has_what_follows(folder: Path) -> None:
    found, parts = read(folder / "e.hwt", FILE[6000:])
    assert found.shape == SHAPE
    assert all(parts[core] and PARTS[core].endswith(parts[core]) for core in range(CORES))


def test_what_follows_the_end_is_not_read(folder: Path) -> None:
    found, parts = read(folder / "f.hwt", FILE + written(SHAPE, [part[::-1] for part in PARTS]))
    assert (parts, found.complete, list(found.damage.rows())) == (PARTS, True, [])


def test_a_chunk_of_a_core_that_is_not_there_and_one_that_overlaps_are_not_read(folder: Path) -> None:
    more = written(MachineShape(9, 6, True, True, 1024, "0" * 64, "a.elf"), [b"", *PARTS[1:2], *[b"x" * 900] * 7])
    # The description of three cores in front.
    found, _ = read(folder / "g.hwt", FILE[: FILE.index(b"\xa9hwc", 20)] + more[8:])
    assert len(found.sizes) == CORES


# Versions 2 and 3


def older_chunks(cores: int, size: int = 3000) -> list[tuple[int, bytes]]:
    return [(core, part[at : at + size]) for at in range(0, 4000, size) for core, part in enumerate(PARTS[:cores])]


def older(cores: int, size: int = 3000) -> bytes:
    shape = MachineShape(cores, 6, strict=True, cycle_accurate=True, window=1024, program="0" * 64, name="a.elf")
    return older_file(shape, older_chunks(cores, size))


@pytest.mark.parametrize("etrace", [None, ETRACE])
def test_older_files_are_read(folder: Path, etrace: dict[str, object] | None) -> None:
    data = older_file(SHAPE, older_chunks(CORES), version=2 if etrace is None else 3, etrace=etrace)
    found, parts = read(folder / "h.hwt", data)
    assert (parts, found.shape, found.etrace, found.complete, found.remarks) == (PARTS, SHAPE, etrace, True, ())
    assert has_etrace(folder / "h.hwt") == (etrace is not None)


@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7), size=st.sampled_from([900, 4000]))
def test_a_bit_of_an_older_file_costs_a_bit(folder: Path, at: int, bit: int, size: int) -> None:
    sound = older(CORES, size)
    begin = sound.index(b"}") + 1
    at = begin + at % (len(sound) - 5 - begin)
    _, parts = read(folder / "i.hwt", DAMAGES["a bit flipped"](sound, at, bit))
    lost = sum(abs(len(part) - len(whole)) for part, whole in zip(parts, PARTS, strict=True))
    # A number that became another core's, and a length that still leads somewhere, look right.
    assert lost <= 2 * size + 10


@given(at=st.integers(300, 1 << 20), what=st.sampled_from(["a byte lost", "1 KB doubled", "16 bytes dropped"]))
def test_damage_to_an_older_file_of_one_core_costs_no_more_than_it_touches(folder: Path, at: int, what: str) -> None:
    sound = older(1, 900)
    at = min(at, len(sound) - 1100)
    damaged = DAMAGES[what](sound, at, 0)
    _, parts = read(folder / "j.hwt", damaged)
    # The stream may have heads of chunks in it, which its segments show to be none.
    assert abs(len(parts[0]) - (4000 + len(damaged) - len(sound))) <= 15
    assert parts[0][-40:] == PARTS[0][-40:]
    assert parts[0][:20] == PARTS[0][:20]


@pytest.mark.parametrize("bit", range(8))
def test_a_bit_of_the_first_bytes_of_an_older_file_does_not_matter(folder: Path, bit: int) -> None:
    sound = older(CORES)
    for at in range(13):
        damaged = DAMAGES["a bit flipped"](sound, at, bit)
        assert read(folder / "k.hwt", damaged)[1] == PARTS, at
        assert is_trace(damaged)


# A real trace


@pytest.fixture(scope="module")
def traced() -> tuple[MachineShape, list[bytes], TracedProgram]:
    config = replace(config_of("sort", (2, 3, "strict")), trace=TraceUnitConfig(enabled=True, sync=256))
    image = MachineImage.of(program("sort"))
    segments = tuple((one.address, one.data) for one in image.segments)
    found = run(config, image, 20_000)
    shape = MachineShape(2, 3, True, True, config.power.window, digest_of(segments), "sort")
    return shape, found.streams, TracedProgram(segments)


def rows_of(trace: Trace) -> Counter[object]:
    """Instructions of all threads, by core, cycle and address."""
    return Counter(
        (core, thread, cycle, address, what)
        for core in range(trace.shape.cores)
        for rows in trace.rows(core)
        for thread, cycle, _, address, size, what, _ in (rows[number] for number in range(len(rows)))
        if size
    )


@pytest.mark.parametrize("old", [False, True])
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7), what=st.sampled_from(sorted(DAMAGES)))
def test_no_row_of_a_damaged_file_is_untrue(
    folder: Path, traced: tuple[MachineShape, list[bytes], TracedProgram], old: bool, at: int, bit: int, what: str
) -> None:
    shape, parts, image = traced
    if old:
        # Here the chunks are those of a run: a core's number that becomes another's is not noticed.
        shape = MachineShape(1, *(getattr(shape, name) for name in shape.__slots__[1:]))
        parts = parts[:1]
        sound = older_file(shape, [(0, parts[0][:2000]), (0, parts[0][2000:])])
        begin = sound.index(b"}") + 1
        at = begin + at % (len(sound) - begin)
    else:
        sound = written(shape, parts)
    (folder / "l.hwt").write_bytes(sound)
    whole = rows_of(Trace(TraceFile(folder / "l.hwt"), image))
    (folder / "l.hwt").write_bytes(DAMAGES[what](sound, at % len(sound), bit))
    found = Counter[object]()
    with suppress(HeadwayError):  # nothing of it can be read
        found = rows_of(Trace(TraceFile(folder / "l.hwt"), image))
    assert not found - whole
    assert old or what not in REPAIRED or found == whole
