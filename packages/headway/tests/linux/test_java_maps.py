"""Java processes write the names of what they have compiled, if that is asked for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headway.linux.symbols.java import is_java, write_perf_map
from headway.linux.symbols.modules import Modules

SOURCE = """
public class Waits {
    public static void main(String[] arguments) throws Exception {
        System.out.println("begun");
        System.in.read();
    }
}
"""


def test_a_process_that_has_ended_is_told_of() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert "it has ended" in write_perf_map(process.pid)


def test_a_process_that_is_no_java_is_not_asked() -> None:
    assert not is_java(Modules().space(os.getpid()))


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("jcmd") is None, reason="needs a JDK")
def test_a_living_one_writes_its_map(tmp_path: Path) -> None:
    source = tmp_path / "Waits.java"
    source.write_text(SOURCE)
    with subprocess.Popen(["java", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert is_java(Modules().space(process.pid))
        assert write_perf_map(process.pid) == ""
        written = Path(f"/tmp/perf-{process.pid}.map")
        assert re.fullmatch(r"(?:[0-9a-fx]+ [0-9a-fx]+ .+\n)+", written.read_text(errors="replace"))
        written.unlink()
        process.kill()
