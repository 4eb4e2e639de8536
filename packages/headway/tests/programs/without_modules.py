"""Runs the command line, or a program, as if modules were not installed.

usage: ``without_modules.py MODULE,... [--run PROGRAM] WORD...``
"""

import runpy
import sys


class Blocked:
    """Imports fail of what these packages have."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if any(name == one or name.startswith(one + ".") for one in self.names):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked(sys.argv.pop(1).split(",")))
if sys.argv[1:2] == ["--run"]:
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    from headway.commands import main

    main()
