"""A capture of real processors: equal to another decoder's, and not much the worse for damage."""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from tests.effort import FEW
from tests.trace.common import in_common

from headway_trace.alignment import fit
from headway_trace.decode import Capture, Stream
from headway_trace.packets import PacketKind
from headway_trace.records import Gap, Instruction, Timestamp, Why

pytestmark = pytest.mark.end_to_end


def test_the_first_core_is_as_ds_5_decodes_it(tc2: Path) -> None:
    with (tc2 / "etmv3_0x10.txt").open() as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row[0] == "Instruction"]
    wanted = [(int(row[2].removeprefix("S:"), 16), int(row[4] or 0)) for row in rows]
    stream = Capture.open(str(tc2)).streams[0x10]
    found = [(one.address, one.cycles) for one in stream.records() if isinstance(one, Instruction)]
    assert len(wanted) == 7205
    assert found == wanted


def test_which_conditions_failed_is_as_ds_5_says(tc2: Path) -> None:
    with (tc2 / "etmv3_0x10.txt").open() as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row[0] == "Instruction"]
    found = [one for one in Capture.open(str(tc2)).streams[0x10].records() if isinstance(one, Instruction)]
    assert [not one.executed for one in found] == [len(row) > 7 and row[7] == "fail" for row in rows]


def test_the_other_cores_decode_without_a_contradiction(tc2: Path) -> None:
    capture = Capture.open(str(tc2))
    counts = {}
    for number, stream in capture.streams.items():
        found = list(stream.records())
        counts[number] = sum(isinstance(one, Instruction) for one in found)
        outside = {Why.IMAGE} if number == 0x13 else set()
        assert {one.why for one in found if isinstance(one, Gap)} == {Why.UNSYNCHRONISED, Why.OFF} | outside
    assert counts == {0x10: 7205, 0x11: 8181, 0x12: 2355, 0x13: 9648}
    assert capture.left_out == ""


def test_a_stream_that_begins_within_the_buffer_needs_no_a_sync(tc2: Path, tmp_path: Path) -> None:
    """Without the I-sync that it began with, it is decoded from the next on; one that the buffer cuts is not."""
    folder = tmp_path / "capture"
    shutil.copytree(tc2, folder, copy_function=shutil.copyfile)
    data, streams = (tc2 / "cstrace.bin").read_bytes(), Capture.open(str(folder)).streams
    (folder / "cstrace.bin").write_bytes(data[:5344] + data[5376:])
    found = {number: sum(len(block.instructions()) for block in stream.blocks()) for number, stream in streams.items()}
    assert (streams[0x10].begins, streams[0x11].begins, streams[0x12].begins) == (False, True, True)
    assert found[0x11] > 8181 - 100
    assert found[0x12] > 2355 - 100


def test_no_byte_is_noise(tc2: Path) -> None:
    for stream in Capture.open(str(tc2)).streams.values():
        assert not stream.statistics().packets.keys() & {PacketKind.NOISE, PacketKind.INCOMPLETE}


def cortex_a7(folder: Path) -> dict[int, Stream]:
    """The three streams of ETMv3."""
    streams = Capture.open(str(folder)).streams
    return {number: stream for number, stream in streams.items() if stream.setting.protocol == "ETMv3"}


def test_timestamps_fit_to_one_tick(tc2: Path) -> None:
    for stream in cortex_a7(tc2).values():
        found = fit(one for one in stream.records() if isinstance(one, Timestamp))
        assert found.worst is not None
        assert found.worst < 16
        assert found.rate == pytest.approx(14.55, abs=0.01)
        assert found.outliers == 0


def flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def without_a_frame(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) // 16) * 16
    return data[:at] + data[at + 16 :]


def without_a_kilobyte(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) // 16 - 64) * 16
    return data[:at] + data[at + 1024 :]


def with_a_frame_zeroed(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) // 16) * 16
    return data[:at] + bytes(16) + data[at + 16 :]


@pytest.mark.parametrize(
    ("damage", "lost_of_others"),
    [(flipped, 4), (without_a_frame, 17), (without_a_kilobyte, 794), (with_a_frame_zeroed, 4780)],
)
def test_damage_costs_less_than_with_other_decoders(
    tc2: Path, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes], lost_of_others: int
) -> None:
    """The median of instructions lost; OpenCSD's is the other."""
    folder = tmp_path / "capture"
    shutil.copytree(tc2, folder, copy_function=shutil.copyfile)
    data, draw = (tc2 / "cstrace.bin").read_bytes(), random.Random(1)
    streams = cortex_a7(folder)

    def decoded() -> dict[int, list[tuple[int, int]]]:
        return {
            number: [one[:2] for block in stream.blocks() for one in block.instructions()]
            for number, stream in streams.items()
        }

    whole, lost, made_up = decoded(), list[int](), list[int]()
    for _ in range(25 if FEW else 80):
        (folder / "cstrace.bin").write_bytes(damage(data, draw))
        found = decoded()
        common = {number: in_common(whole[number], found[number]) for number in whole}
        lost.append(sum(len(whole[number]) - common[number] for number in whole))
        made_up.append(sum(len(found[number]) - common[number] for number in whole))
    assert median(lost) < lost_of_others
    assert median(made_up) == 0
