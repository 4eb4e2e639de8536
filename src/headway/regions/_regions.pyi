"""Type stubs of the compiled marks; the documentation is in ``_regions.pyx``."""

from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

class _Region:
    @property
    def tag(self) -> str: ...
    def __init__(self, tag: str = ...) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]: ...

class noneffective(_Region): ...  # noqa: N801
class poll(_Region): ...  # noqa: N801

def set_noneffective(tag: str = ...) -> None: ...
def clear_noneffective() -> None: ...
