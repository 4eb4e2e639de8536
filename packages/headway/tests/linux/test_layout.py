"""What C and Python share comes from one header each, which every compiler reads in the same way."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.effort import FEW

from headway.linux.bpf.programs.compile import ARCHITECTURES
from headway.linux.bpf.shared import layout, states
from headway.linux.bpf.shared._layout import CONSTANTS, ENUMERATIONS, STRUCTURES
from headway.linux.bpf.shared.settings import pack_settings
from headway.linux.list_layout import HeaderLayout
from headway.linux.regions import _block_layout, blocks
from headway.model import KNOWN_LOSSES

from .bpf_building import build_text, complaints

SOURCE = Path(__file__).parents[2] / "src/headway"
BPF = SOURCE / "linux/bpf"
HEADER = (SOURCE / "include/headway.h").read_text(encoding="utf-8")
OBSERVED = "What an observer reads"
"""The section of headway.h that Python reads, too."""
PROGRAM = 'SEC("tp_btf/sys_exit") int handle_sys_exit(u64 *ctx) { return 0; }\n'
UNNAMED_STATES = {
    "STATE_NONE": "no state",
    "WAIT_BY_FILE": "no state: the file decides",
    "WAIT_SYNCED": "likewise",
    "SOFTIRQ": "the first of a range",
    "N_SOFTIRQS": "a length",
    "N_INTERRUPTS": "a length",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_compiler_of_the_programs_finds_the_same_numbers(architecture: str, tmp_path: Path) -> None:
    """The C compiler of the reader has verified them when it was built."""
    checks = HeaderLayout((BPF / "shared/layout.h").read_text(encoding="utf-8")).checks()
    assert checks.count("_Static_assert") > len(CONSTANTS)
    build_text(checks + PROGRAM, tmp_path, architecture)


def test_every_header_of_the_programs_includes_what_it_needs(tmp_path: Path) -> None:
    unused = '#pragma clang diagnostic ignored "-Wunused-function"'
    own = {path: "Include this where" not in path.read_text(encoding="utf-8") for path in BPF.rglob("*.h")}
    headers = sorted(str(path.relative_to(BPF)) for path, alone in own.items() if alone)
    assert len(headers) > 10
    first = {"threads/selection.h": '#include "shared/maps.h"'}  # is for several programs, each with its own settings
    texts = {
        name.replace("/", "-"): f'{unused}\n{first.get(name, "")}\n#include "{name}"\n{PROGRAM}'
        for name in headers[:: 8 if FEW else 1]
    }
    assert complaints(texts, tmp_path) == ""
    needy = {"needy": "static inline u64 needed(struct task_struct *task) { return is_kernel_thread_(task); }"}
    assert "is_kernel_thread_" in complaints(needy, tmp_path)


def test_the_module_is_made_of_the_header_as_it_is() -> None:
    now = HeaderLayout((BPF / "shared/layout.h").read_text(encoding="utf-8"))
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


def test_cython_takes_what_the_header_declares_from_what_is_made_of_it() -> None:
    modules = {path.name: path.read_text(encoding="utf-8") for path in BPF.rglob("*.p[yx][xd]")}
    assert any("from bpf_layout cimport" in text for text in modules.values())
    assert [name for name, text in modules.items() if re.search(r'cdef extern from ".*layout\.h"', text)] == []


def test_cython_has_every_constant_and_field_in_a_type_that_holds_it() -> None:
    text = """
    enum size { N = 3, FAR = 0xffffffff };
    #define WIDE 0x100000000ull
    struct inner { __u16 a, b[N]; };
    struct outer { char name[16]; __u64 rows[N][2]; struct inner inner; };
    """
    declared = HeaderLayout(textwrap.dedent(text)).cython("some.h", "checks.h")
    assert re.findall(r"^ {8}(\w+)$", declared, re.MULTILINE) == ["N"]
    assert re.findall(r"^ {4}const (.+)$", declared, re.MULTILINE) == ["uint32_t FAR", "uint64_t WIDE"]
    fields = ["uint16_t a", "uint16_t b[3]", "char name[16]", "uint64_t rows[3][2]", "inner inner"]
    assert re.findall(r"^ {8}(\w+ .+)$", declared, re.MULTILINE) == fields


def test_fields_are_packed_where_they_are() -> None:
    key = layout.packing("cause_key", "birth", "tid", "kind")
    assert key.size == layout.size_of("cause_key")
    packed = key.pack(1, 2, 3)
    assert packed[layout.offset_of("cause_key", "tid")] == 2
    assert packed[layout.offset_of("cause_key", "kind")] == 3
    assert key.unpack(packed) == (1, 2, 3)


def test_a_structure_is_packed_from_its_fields_by_name() -> None:
    packed = layout.pack("neutral", {"at_most": 7, "errors": (3, 4), "call": 2})
    assert len(packed) == layout.size_of("neutral")
    assert layout.packing("neutral", "call", "errors", "at_most").unpack(packed) == (2, 3, 4, 0, 0, 7)


@pytest.mark.parametrize("values", [{"call": 1 << 16}, {"errors": (1,) * 5}, {"call": -1}])
def test_what_does_not_fit_its_field_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(struct.error):
        layout.pack("neutral", values)


def test_bytes_that_do_not_fit_their_field_are_refused() -> None:
    with pytest.raises(struct.error, match=r"settings\.name has no room for 17 bytes"):
        layout.pack("settings", {"name": b"a" * 17})


def test_settings_are_named_as_in_the_header_and_sizes_are_never_0() -> None:
    packed = pack_settings(max_thread_records=9, why=True, name=b"a" * 20)
    fields = ("max_thread_records", "name_length", "name", "why", "ring_words", "absence_words", "n_processes")
    found = layout.packing("settings", *fields).unpack(packed)
    assert found == (9, 15, b"a" * 15 + b"\0", 1, 1, 1, 1)
    with pytest.raises(TypeError, match="no such settings: nothing"):
        pack_settings(max_thread_records=9, nothing=1)


@pytest.mark.parametrize("option", ["publish", "tasks"])
def test_what_is_kept_for_others_beside_a_thread_is_told_at_once(option: str) -> None:
    other_accounts = layout.packing("settings", "other_accounts")
    values: dict[str, Any] = {option: True}
    assert other_accounts.unpack(pack_settings(max_thread_records=9, **values)) == (1,)
    assert other_accounts.unpack(pack_settings(max_thread_records=9)) == (0,)


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


def test_a_section_is_read_up_to_the_next_one() -> None:
    text = "#define A 1\n/* ---- One ---\n a */\n#define B 2\n/* ---- Two --- */\n#define C 3\n"
    assert HeaderLayout(text, "One").constants == {"B": 2}
    assert HeaderLayout(text, "Two").constants == {"C": 3}
    with pytest.raises(ValueError, match="no section 'Three'"):
        HeaderLayout(text, "Three")


# ---- the blocks of marked regions ----


def verify(header: str, checks: str, folder: Path) -> str:
    """Return what the C compiler has against these checks of this text of headway.h; empty: nothing."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = folder / "blocks.c"
    source.write_text(f"{header}\n{checks}")
    found = subprocess.run(
        [compiler, "-std=gnu11", "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )
    assert (found.returncode == 0) == (not found.stderr)
    return found.stderr


def test_the_layout_of_blocks_is_made_of_the_header_as_it_is() -> None:
    now = HeaderLayout(HEADER, OBSERVED)
    assert now.constants == _block_layout.CONSTANTS
    assert {name: (each.size, each.fields) for name, each in now.structures.items()} == _block_layout.STRUCTURES
    assert {"headway_arena", "headway_block", "headway_block_tag"} <= now.structures.keys()


def test_the_compiler_of_a_program_that_marks_regions_finds_the_same_numbers(tmp_path: Path) -> None:
    checks = HeaderLayout(HEADER, OBSERVED).checks()
    for name in (*blocks.ARENA_FIELDS, "hand", "created"):
        assert f"offsetof(struct headway_arena, {name})" in checks
    assert verify(HEADER, checks, tmp_path) == ""


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("    uint32_t used; ", "    uint32_t hand; ", "offsetof(struct headway_arena, "),
        ("    uint32_t refused_threads;", "    uint32_t refused_tags;", "offsetof(struct headway_arena, refused_"),
        ("    uint32_t open; ", "    uint32_t errors; ", "offsetof(struct headway_block, "),
        ("    uint64_t word, entries;", "    uint64_t entries, word;", "offsetof(struct headway_block_tag, word)"),
        ("#define HEADWAY_VERSION_ 1u", "#define HEADWAY_VERSION_ 2u", "HEADWAY_VERSION_"),
    ],
)
def test_a_header_with_another_layout_than_python_has_is_not_compiled(
    before: str, after: str, complaint: str, tmp_path: Path
) -> None:
    """Two fields of one type change places, which moves nothing else."""
    checks = HeaderLayout(HEADER, OBSERVED).checks()
    assert HEADER.count(before) == 1
    other = HEADER.replace(after, "    uint32_t OTHER;").replace(before, after).replace("    uint32_t OTHER;", before)
    assert other != HEADER
    assert complaint in verify(other, checks, tmp_path)


def test_the_programs_have_the_blocks_as_programs_that_mark_regions_have_them() -> None:
    marked = _block_layout.CONSTANTS
    assert STRUCTURES["block"] == _block_layout.STRUCTURES["headway_block"]
    assert STRUCTURES["block_tag"] == _block_layout.STRUCTURES["headway_block_tag"]
    assert CONSTANTS["N_BLOCK_TAGS"] == marked["HEADWAY_TAGS_"]
    assert CONSTANTS["TAG_LENGTH"] == marked["HEADWAY_NAME_"]
    assert CONSTANTS["BLOCK_MAGIC"] == marked["HEADWAY_BLOCK_MAGIC_"]
    assert CONSTANTS["REGISTER_CALL"] == marked["HEADWAY_REGISTER_"]
