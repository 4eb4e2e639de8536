"""The page "A first program" is true: every line of it is run, and prints what is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway_machine import building
from headway_machine.building import Base, base_of, build, find_compiler, new_program
from headway_machine.machine import Machine

PAGE = Path(__file__).parents[2] / "docs" / "first-machine-program.md"
REST = "…"
pytestmark = pytest.mark.exhaustive  # it needs a RISC-V compiler

EXACTLY = "12.2.0"
"""The version of gcc that the page's figures are of."""


def compiler(picolibc: bool = False) -> None:
    try:
        found = find_compiler()
    except HeadwayError as error:
        pytest.skip(str(error))
    if picolibc and not found.has_picolibc():
        pytest.skip("picolibc for RISC-V is not installed")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of the page with what it prints. A here-document belongs to its command."""
    for block in re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            if command.endswith("<<'END'"):
                document, _, printed = printed.partition("END\n")
                command = f"{command}\n{document}END\n"
            yield command, printed.splitlines()


def test_every_line_of_the_page(tmp_path: Path) -> None:
    compiler(picolibc=True)
    version = subprocess.run([find_compiler().path, "-dumpfullversion"], capture_output=True, text=True, check=True)
    script = tmp_path / "bin" / "headway"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom headway.commands import main\nmain()\n")
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    environment.pop("MAKEFLAGS", None)
    ran = 0
    for command, expected in commands():
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        printed = (done.stdout + done.stderr).splitlines()
        if version.stdout.strip() == EXACTLY:
            whole = REST not in expected
            kept = expected if whole else expected[: expected.index(REST)]
            assert (printed if whole else printed[: len(kept)]) == kept, command
        ran += 1
    assert ran == 10


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ('#include "headway_guest.h"\n', Base.KERNEL),
        ('#include "bare.h"\n', Base.BARE),
        ("#include <stdio.h>\n", Base.PICOLIBC),
    ],
)
def test_what_a_program_stands_on_is_what_it_includes(tmp_path: Path, text: str, base: Base) -> None:
    (tmp_path / "a.c").write_text("int other;\n")
    (tmp_path / "b.c").write_text(text)
    assert base_of([str(tmp_path / "a.c"), str(tmp_path / "b.c")]) is base


def test_a_long_division_finds_its_library(tmp_path: Path) -> None:
    """It is in libgcc, of which the compiler must take the one for 32 bits."""
    compiler()
    for header, line in (("headway_guest.h", 'hw_print("%u", '), ("bare.h", 'bare_print("%u", ')):
        source, program = tmp_path / "d.c", tmp_path / "d.elf"
        source.write_text(
            f'#include "{header}"\nvolatile uint64_t big = 0x123456789abull, by = 1000;\n'
            f"int main(void) {{ {line}(uint32_t)(big / by)); return 0; }}\n"
        )
        assert build([str(source)], str(program), base_of([str(source)])) == 0
        result = Machine().run(program)
        assert (result.exit_status, result.output + result.console) == (0, b"%d" % (0x123456789AB // 1000))


def test_the_compilers_status_is_the_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compiler()
    (tmp_path / "a.c").write_text('#include "bare.h"\nint main(void) { return nothing; }\n')
    assert build([str(tmp_path / "a.c")], str(tmp_path / "a.elf"), Base.BARE) == 1
    assert "nothing" in capfd.readouterr().err


def test_mistakes_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HeadwayError, match="cannot be read"):
        base_of([str(tmp_path / "none.c")])
    new_program(str(tmp_path / "x"))
    with pytest.raises(HeadwayError, match=r"main\.c' exists: name another folder"):
        new_program(str(tmp_path / "x"))
    (tmp_path / "file").touch()
    with pytest.raises(HeadwayError, match="cannot be written"):
        new_program(str(tmp_path / "file" / "y"))
    monkeypatch.setenv("RISCV_CC", "no-such-gcc")
    with pytest.raises(HeadwayError, match="RISCV_CC is 'no-such-gcc', which is no program"):
        find_compiler()
    monkeypatch.delenv("RISCV_CC")
    monkeypatch.setattr(building, "_COMPILERS", ())
    with pytest.raises(HeadwayError, match=r"there is no RISC-V compiler: install one: .*gcc-riscv64-unknown-elf"):
        find_compiler()
    fake = tmp_path / "gcc"
    fake.write_text('#!/bin/sh\necho "${3#-print-file-name=}"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("RISCV_CC", str(fake))
    with pytest.raises(HeadwayError, match="picolibc-riscv64-unknown-elf"):
        build(["a.c"], "a.elf", Base.PICOLIBC)
