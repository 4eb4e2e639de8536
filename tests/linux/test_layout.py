"""What the eBPF programs and Python share comes from one header, which every compiler reads in the same way."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headway.linux.bpf import layout, states
from headway.linux.bpf._layout import CONSTANTS, ENUMERATIONS, STRUCTURES
from headway.linux.bpf.compile import ARCHITECTURES
from headway.linux.list_layout import HeaderLayout
from headway.linux.regions import blocks
from headway.model import KNOWN_LOSSES

from .bpf_building import build_text

BPF = Path(__file__).parents[2] / "src/headway/linux/bpf"
PROGRAM = 'SEC("tp_btf/sys_exit") int handle_sys_exit(u64 *ctx) { return 0; }\n'
UNNAMED_STATES = {
    "STATE_NONE": "no state",
    "WAIT_BY_FILE": "no state: the file decides",
    "SOFTIRQ": "the first of a range",
    "N_SOFTIRQS": "a length",
    "N_INTERRUPTS": "a length",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_compiler_of_the_programs_finds_the_same_numbers(architecture: str, tmp_path: Path) -> None:
    """The C compiler of the reader has verified them when it was built."""
    checks = HeaderLayout((BPF / "layout.h").read_text(encoding="utf-8")).checks()
    assert checks.count("_Static_assert") > len(CONSTANTS)
    build_text(checks + PROGRAM, tmp_path, architecture)


@pytest.mark.parametrize("header", sorted(path.name for path in BPF.glob("*.h")))
def test_a_header_of_the_programs_includes_what_it_needs(header: str, tmp_path: Path) -> None:
    unused = '#pragma clang diagnostic ignored "-Wunused-function"'
    build_text(f'{unused}\n#include "{header}"\n{PROGRAM}', tmp_path)


def test_the_module_is_made_of_the_header_as_it_is() -> None:
    now = HeaderLayout((BPF / "layout.h").read_text(encoding="utf-8"))
    assert now.constants == CONSTANTS
    assert now.enumerations == ENUMERATIONS
    assert {name: (each.size, each.fields) for name, each in now.structures.items()} == STRUCTURES


def test_every_loss_that_the_programs_count_is_a_known_loss_and_has_a_place() -> None:
    assert sorted(layout.LOSSES.values()) == list(range(CONSTANTS["N_KNOWN_LOSSES"]))
    assert CONSTANTS["N_KNOWN_LOSSES"] <= CONSTANTS["N_LOSSES"]
    assert set(layout.LOSSES) == {loss.constant for loss in KNOWN_LOSSES.values() if loss.constant}


def test_every_state_has_a_name() -> None:
    numbered = set(ENUMERATIONS["state"]) - set(UNNAMED_STATES)
    assert {name for name in numbered if states.NAMES[CONSTANTS[name]] == "unknown"} == {"UNKNOWN"}


def test_no_length_of_the_header_is_written_down_in_cython() -> None:
    """But that of a thread's name, TASK_COMM_LEN, which the kernel gives."""
    for path in BPF.glob("*.pyx"):
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^cdef extern from \"bpf/layout.h\".*?(?=^\S)", text, re.MULTILINE | re.DOTALL):
            assert set(re.findall(r"\[\d+\]|=\s*\d+", block)) <= {"[16]"}, path.name


def test_fields_are_packed_where_they_are() -> None:
    key = layout.packing("cause_key", "birth", "tid", "kind")
    assert key.size == layout.size_of("cause_key")
    packed = key.pack(1, 2, 3)
    assert packed[layout.offset_of("cause_key", "tid")] == 2
    assert packed[layout.offset_of("cause_key", "kind")] == 3
    assert key.unpack(packed) == (1, 2, 3)


def test_fields_are_named_in_their_order() -> None:
    with pytest.raises(ValueError, match=r"cause_key\.birth does not lie behind"):
        layout.packing("cause_key", "tid", "birth")
    with pytest.raises(KeyError):
        layout.packing("cause_key", "nothing")


@pytest.mark.parametrize(
    "text",
    [
        "enum { A };",
        "struct s {\n\tfloat f;\n};",
        "enum e { A = sizeof(int) };",
        "enum e { A = __import__('os') };",
    ],
)
def test_a_declaration_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, NameError, SyntaxError)):
        HeaderLayout(text)


def test_the_blocks_of_marked_regions_are_as_the_header_of_the_programs_under_measurement_has_them(
    tmp_path: Path,
) -> None:
    """The header is all that such a program has of headway, so it stands alone; its readers agree with it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    size, fields = STRUCTURES["block"]
    facts = {
        "sizeof(struct headway_block)": size,
        **{f"offsetof(struct headway_block, {name})": at for name, (at, _) in fields.items()},
        "sizeof(((struct headway_block *)0)->tags[0])": layout.size_of("block_tag"),
        "HEADWAY_TAGS_": CONSTANTS["N_BLOCK_TAGS"],
        "HEADWAY_NAME_": CONSTANTS["TAG_LENGTH"],
        "HEADWAY_BLOCK_MAGIC_": CONSTANTS["BLOCK_MAGIC"],
        "HEADWAY_REGISTER_": CONSTANTS["REGISTER_CALL"],
        "sizeof(struct headway_block) + 0": blocks.BLOCK_SIZE,
        "HEADWAY_TAGS_ + 0": blocks.N_TAGS,
        "HEADWAY_NAME_ + 0": blocks.NAME_SIZE,
        "HEADWAY_BLOCK_MAGIC_ + 0": blocks.BLOCK_MAGIC,
        "HEADWAY_ARENA_MAGIC_": blocks.ARENA_MAGIC,
        "HEADWAY_VERSION_": blocks.VERSION,
        "HEADWAY_BLOCKS_AT_": blocks.BLOCKS_AT,
        "HEADWAY_BLOCKS": blocks.MAX_BLOCKS,
    }
    source = tmp_path / "blocks.c"
    lines = [f'_Static_assert({what} == {value}ull, "{what} differs");' for what, value in facts.items()]
    source.write_text("\n".join(["#include <stddef.h>", '#include "headway.h"', *lines, ""]))
    include = BPF.parents[1] / "include"
    command = [compiler, "-std=gnu11", "-fsyntax-only", f"-I{include}", str(source)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
