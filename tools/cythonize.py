"""Compile Cython modules to C, all in one process: Cython takes longer to start than for most of them.

Only what is older than its source or than a ``.pxd`` file is written: the C compiler has no more to do than that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from Cython.Compiler.Main import CompilationOptions, compile

DIRECTIVES = {"emit_code_comments": False}  # they are a third of the C
UNCHECKED = {"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}


def main() -> int:
    """Compile what is given on the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the C files are written")
    parser.add_argument("files", type=Path, nargs="+", help=".pyx files, and .pxd files that they depend on")
    parser.add_argument("--include", action="append", required=True, help="a folder in which packages are looked for")
    parser.add_argument("--shared", help="the module that has what Cython puts into several modules")
    parser.add_argument("--unchecked", action="store_true", help="indices and divisors are known to be right")
    given = parser.parse_args()
    sources = [file for file in given.files if file.suffix == ".pyx"]
    changed = max(_time(file) for file in (Path(__file__), *given.files) if file not in sources)
    status = 0
    for source in sources:
        output = given.folder / f"{source.stem}.c"
        if output.exists() and _time(output) > max(changed, _time(source)):
            continue
        options = CompilationOptions(
            compiler_directives=DIRECTIVES | (UNCHECKED if given.unchecked else {}),
            emit_linenums=True,  # gdb, perf and sanitizers show lines of Cython
            include_path=given.include,
            language_level=3,
            output_file=str(output),
            shared_utility_qualified_name=given.shared,
        )
        if compile(str(source), options).num_errors:
            output.unlink(missing_ok=True)
            status = 1
    return status


def _time(file: Path) -> int:
    return file.stat().st_mtime_ns


if __name__ == "__main__":
    sys.exit(main())
