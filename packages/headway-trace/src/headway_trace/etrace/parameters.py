"""What a decoder of E-Trace must know of an encoder and its encapsulation.

The names are those of "Efficient Trace for RISC-V" 2.0, chapter "Parameters and Discovery", and of "Unformatted Trace &
Diagnostic Data Packet Encapsulation for RISC-V". Parameters come from files and are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headway.errors import HeadwayError
from headway.values import shown

__all__ = ["OPTIONS", "EtraceParameters", "encoder_parameters"]

OPTIONS = (
    "implicit_return",
    "implicit_exception",
    "full_address",
    "jump_target_cache",
    "branch_prediction",
    "sequential_jump",
)
"""The optional modes of an encoder. ``ioptions`` names them in the order of the bits of support packets."""
_UNUSED = "-"
_LIMITS = {
    "iaddress_width": (8, 64),
    "iaddress_lsb": (0, 2),
    "context_width": (0, 64),
    "time_width": (0, 63),
    "ecause_width": (1, 16),
    "privilege_width": (1, 3),
    "f0s_width": (0, 2),
    "bpred_size": (0, 16),
    "cache_size": (0, 16),
    "call_counter_size": (0, 12),
    "return_stack_size": (0, 12),
    "source_width": (0, 16),
    "timestamp_bytes": (0, 8),
    "type_width": (0, 7),
    "sources": (1, 1024),
}
_MEMORY = 1 << 26
"""The most bytes of predictors and caches of all sources."""


@dataclass(frozen=True, slots=True)
class EtraceParameters:
    """The parameters of an encoder, widths in bits. The defaults are those of the specification, for RV32 with C."""

    iaddress_width: int = 32
    iaddress_lsb: int = 1
    context_width: int = 1
    nocontext: bool = True
    time_width: int = 1
    notime: bool = True
    ecause_width: int = 4
    privilege_width: int = 2
    f0s_width: int = 0
    bpred_size: int = 0
    cache_size: int = 0
    call_counter_size: int = 0
    return_stack_size: int = 0
    ioptions: tuple[str, ...] = OPTIONS[:5]
    """The option of each bit of ``ioptions`` in support packets, the lowest first; "-": of no meaning here."""
    enabled: tuple[str, ...] = ()
    """Options that are on before the first support packet."""
    mtvec: int | None = None
    """Where traps go, as the CSR has it, if the encoder leaves the address out (implicit exception mode)."""
    source_width: int = 0
    """Bits of the source's ID in the encapsulation."""
    timestamp_bytes: int = 0
    """Bytes of the timestamp in the encapsulation, of packets that have one."""
    type_width: int = 0
    """Bits of the packet's type in the encapsulation."""
    sources: int = 1
    """Sources: IDs are below this number."""

    @property
    def irdepth_width(self) -> int:
        """Bits of the field irdepth."""
        return self.return_stack_size + (self.return_stack_size > 0) + self.call_counter_size

    def option_bits(self) -> list[int]:
        """Return what each bit of ioptions stands for: 1 shifted by the option's place in `OPTIONS`, or 0."""
        return [1 << OPTIONS.index(name) if name in OPTIONS else 0 for name in self.ioptions]

    def initial_options(self) -> int:
        """Return the options before the first support packet, a bit each, by their places in `OPTIONS`."""
        return sum(1 << OPTIONS.index(name) for name in set(self.enabled))

    def described(self) -> dict[str, Any]:
        """Return the parameters that differ from the defaults, for a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value != getattr(_DEFAULT, name)
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> EtraceParameters:
        """Take parameters by name, from a file. Raises HeadwayError if one is unknown or impossible."""
        chosen: dict[str, Any] = {}
        known = {field.name: str(field.type) for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise HeadwayError(f"{shown(name)} is no parameter of E-Trace: give one of {', '.join(known)}")
            chosen[name] = _checked(name, known[name], value)
        found = cls(**chosen)
        each = (
            (1 << found.bpred_size)
            + (8 << found.cache_size)
            + (8 << (found.return_stack_size or found.call_counter_size))
        )
        if each * found.sources > _MEMORY:
            raise HeadwayError(
                f"{found.sources} sources with predictors and caches of these sizes are too many: give fewer"
            )
        if found.irdepth_width > 16:
            raise HeadwayError("return_stack_size and call_counter_size are both large: give one of them")
        return found


def _checked(name: str, kind: str, value: Any) -> Any:
    if kind == "bool":
        if type(value) is not bool:
            raise HeadwayError(f"{name} is {shown(value)}: give true or false")
        return value
    if kind.startswith("tuple"):
        allowed = {*OPTIONS, _UNUSED} if name == "ioptions" else set(OPTIONS)
        if (
            not isinstance(value, (list, tuple))
            or len(value) > 8
            or not all(isinstance(one, str) and one in allowed for one in value)
        ):
            raise HeadwayError(f"{name} is {shown(value)}: give a list of at most 8 of {', '.join(sorted(allowed))}")
        return tuple(value)
    low, high = _LIMITS.get(name, (0, (1 << 63) - 1))
    if type(value) is not int or not low <= value <= high:
        raise HeadwayError(f"{name} is {shown(value)}: give a whole number from {low} to {high}")
    return value


_DEFAULT = EtraceParameters()


def encoder_parameters(*, sources: int, timed: bool, options: int) -> EtraceParameters:
    """Return the parameters of the reference machine's encoders.

    ``timed``: synchronisation packets have times. ``options``: the modes that are on, as bits of ioptions.
    """
    return EtraceParameters(
        context_width=32,
        nocontext=False,
        time_width=48,
        notime=not timed,
        f0s_width=1,
        bpred_size=9,
        cache_size=6,
        return_stack_size=4,
        ioptions=OPTIONS,
        enabled=tuple(name for bit, name in enumerate(OPTIONS) if options >> bit & 1),
        source_width=8,
        sources=sources,
    )
