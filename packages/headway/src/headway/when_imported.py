"""Calling a function when a module has been imported.

`headway.web` uses this, and what ``--python-tasks`` has Python import first, which executes this file by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["WhenImported"]


class WhenImported:
    """An entry of `sys.meta_path` that calls a function with a module once that has been imported.

    ``functions``: the functions, by the names of modules. Of those that are there they are called at once.
    """

    def __init__(self, functions: Mapping[str, Callable[[ModuleType], object]]) -> None:
        self._functions = {name: then for name, then in functions.items() if name not in sys.modules}
        sys.meta_path.insert(0, self)
        for name in functions.keys() - self._functions.keys():
            functions[name](sys.modules[name])

    def stop(self) -> None:
        """Call no function any more."""
        self._functions.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of the module, whose loader calls the function; None: it is another module."""
        then = self._functions.pop(name, None)
        spec = None if then is None else find_spec(name)
        if then is None or spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if module.__spec__ is not spec:  # a loader may be that of other modules, too
                execute(module)
                return
            loader.exec_module = execute  # type: ignore[method-assign]
            execute(module)
            then(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
