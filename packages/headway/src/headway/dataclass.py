"""The ``dataclass`` of the standard library, made in a third of the time.

For each class the standard library compiles up to six functions one by one (all at once from Python 3.13 on). A command
has dozens of classes, and a third of the time in which it started went into that. Here only ``__init__`` is compiled.
The other functions are shared, and do the same: `tests/test_dataclass.py` compares them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _Factory:
    """Stands in a signature for a value that is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: type, fields: Sequence[dataclasses.Field[Any]], frozen: bool, slots: bool) -> Callable[..., None]:
    """Compile the function that sets the fields of a new object."""
    known: dict[str, object] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    parameters, only_by_name, body = ["self"], ["*"], []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            default = "=_FACTORY"
            value = f"{name} if {name} is not _FACTORY else _make_{name}()" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
            if not (field.init or slots):
                continue  # the class has it
        else:
            default = ""
            if not field.init:
                continue
        if field.init:
            (only_by_name if field.kw_only else parameters).append(name + default)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    if only_by_name[1:]:
        parameters += only_by_name
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)
    function: Any = known["__init__"]
    function.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return function  # type: ignore[no-any-return]


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the values of these fields of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _shown(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _compared(names: Sequence[str]) -> Callable[[Any, object], bool]:
    values = _values(names)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hashed(names: Sequence[str]) -> Callable[[Any], int]:
    values = _values(names)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _guarded(cls: type, names: frozenset[str]) -> Mapping[str, Callable[..., None]]:
    """Return what keeps the fields of an object as they are."""

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _kept(names: Sequence[str]) -> Mapping[str, Callable[..., Any]]:
    """Return what pickle and copy need of an object without a dictionary whose fields cannot be assigned."""

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: Sequence[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}


def _made(cls: type, eq: bool, frozen: bool, slots: bool, options: Mapping[str, bool]) -> type:
    own = set(cls.__dict__)
    cls.__doc__ = cls.__doc__ or cls.__name__  # the standard library would write a signature, slowly
    made: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, **options)(cls)
    fields = dataclasses.fields(made)
    names = [field.name for field in fields]
    compared = [field.name for field in fields if field.compare]
    methods: dict[str, Any] = {
        "__init__": _init(made, fields, frozen, slots),
        "__repr__": _shown([field.name for field in fields if field.repr]),
    }
    if eq:
        methods["__eq__"] = _compared(compared)
        hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        methods["__hash__"] = _hashed(hashed) if frozen else None
        if "__eq__" in own and cls.__hash__ is None:  # what Python itself puts beside a comparison is none of ours
            own.discard("__hash__")
    if frozen:
        methods |= _guarded(made, frozenset(names))
        if slots:
            methods |= _kept(names)
    for name, method in methods.items():
        if name not in own:
            if method is not None:
                method.__qualname__ = f"{made.__qualname__}.{name}"
                method.__module__ = made.__module__
            setattr(made, name, method)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False, **options):
        """Return the class with the functions that follow from its fields; options are those of the standard library.

        Not all are known here: `init`, `order` and others are for the standard library's own.
        """

        def make(cls):
            return _made(cls, eq, frozen, slots, options)

        return make if cls is None else make(cls)
