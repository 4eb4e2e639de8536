"""Names of a package that are imported when they are first used, so that a command loads no more than it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazily"]


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package that has these names of its modules (PEP 562).

    ``modules``: the names, with spaces between them, by their module, as in ``{".ledger": "Ledger since"}``.
    The package imports them too where types are checked: ``if TYPE_CHECKING``.
    """
    where = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(where[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
