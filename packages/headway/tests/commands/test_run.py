"""What the command line makes of errors of the system."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from headway import commands

MAIN = "from headway.commands import main; main()"


def test_a_limit_of_open_files_is_one_sentence_that_says_what_to_do() -> None:
    words = shlex.join([sys.executable, "-c", MAIN, "stat", "--source", "proc", "--", "true"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 8; exec {words}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 125
    assert done.stderr == "headway: too many files are open: raise the limit (ulimit -n)\n"


@pytest.mark.parametrize("module", ["headway_trace", "headway_machine"])
@pytest.mark.parametrize(("ours", "fits"), [("7.0.dev3+gabc", False), ("7.0", False), (None, True)])
def test_a_command_of_another_release_is_refused(
    module: str, ours: str | None, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    name = module.removeprefix("headway_")
    if ours is not None:
        monkeypatch.setattr(commands, "__version__", ours)
    done = CliRunner().invoke(commands.group, [name, "--help"])
    assert (done.exit_code == 0) is fits, done.output
    assert (f"does not fit headway {ours}: pip install --upgrade headway headway-{name}" in done.output) is not fits
