"""What the command line makes of errors of the system."""

from __future__ import annotations

import shlex
import subprocess
import sys

MAIN = "from headway.commands import main; main()"


def test_a_limit_of_open_files_is_one_sentence_that_says_what_to_do() -> None:
    words = shlex.join([sys.executable, "-c", MAIN, "stat", "--source", "proc", "--", "true"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 8; exec {words}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 125
    assert done.stderr == "headway: too many files are open: raise the limit (ulimit -n)\n"
