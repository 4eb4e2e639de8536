"""What a hart is to GDB: its registers, and how they are numbered ("Debugging with GDB", appendix G.5.13)."""

from __future__ import annotations

from headway_machine.debugging import REGISTERS, DebugSession

__all__ = ["N_GENERAL", "description", "read_register", "threads", "write_register"]

_CSRS = {
    "mstatus": 0x300,
    "mie": 0x304,
    "mtvec": 0x305,
    "mscratch": 0x340,
    "mepc": 0x341,
    "mcause": 0x342,
    "mtval": 0x343,
    "mip": 0x344,
}
_FIRST_CSR = 65
"""GDB's number of CSR 0."""
_COUNTERS = ("epc", "mpci", "mpcx", "kpc", "iopc", "rpc", "spc", "opc")
_FIRST_COUNTER = 8192
_PC = 32
N_GENERAL = 33
"""Registers in a ``g`` packet: x0 to x31, pc."""
_BY_NUMBER = dict(enumerate(REGISTERS)) | {_PC: "pc"} | {_FIRST_CSR + number: name for name, number in _CSRS.items()}


def description() -> str:
    """Return the target's description in XML."""
    pointers = {"ra": "code_ptr", "sp": "data_ptr", "gp": "data_ptr", "tp": "data_ptr", "pc": "code_ptr"}
    general = "".join(
        f'<reg name="{name}" bitsize="32" regnum="{n}" type="{pointers.get(name, "int")}"/>'
        for n, name in enumerate((*REGISTERS, "pc"))
    )
    csrs = "".join(
        f'<reg name="{name}" bitsize="32" regnum="{_FIRST_CSR + n}" group="csr"/>' for name, n in _CSRS.items()
    )
    counters = "".join(
        f'<reg name="{name}" bitsize="64" regnum="{_FIRST_COUNTER + n}" group="progress" save-restore="no"/>'
        for n, name in enumerate(_COUNTERS)
    )
    return (
        '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target version="1.0">'
        "<architecture>riscv:rv32</architecture>"
        f'<feature name="org.gnu.gdb.riscv.cpu">{general}</feature>'
        f'<feature name="org.gnu.gdb.riscv.csr">{csrs}</feature>'
        f'<feature name="headway.progress">{counters}</feature></target>'
    )


def threads(session: DebugSession) -> str:
    """Return the list of harts in XML, each with the thread that it runs and its state."""
    rows = (
        f'<thread id="{hart + 1:x}" core="{hart}" name="hart {hart}">{_quoted(session.doing(hart))}</thread>'
        for hart in range(session.harts)
    )
    return f'<?xml version="1.0"?><threads>{"".join(rows)}</threads>'


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read_register(session: DebugSession, hart: int, number: int) -> str | None:
    """Return a register's value in the target's byte order, as hexadecimal digits; None: there is no such register."""
    if number in _BY_NUMBER:
        return (session.registers(hart)[_BY_NUMBER[number]]).to_bytes(4, "little").hex()
    if 0 <= number - _FIRST_COUNTER < len(_COUNTERS):
        value = session.counters(hart)[_COUNTERS[number - _FIRST_COUNTER]] & (1 << 64) - 1
        return value.to_bytes(8, "little").hex()
    return None


def write_register(session: DebugSession, hart: int, number: int, digits: bytes) -> bool:
    """Write a register. Return whether it can be written."""
    if number > _PC:
        return False
    try:
        value = int.from_bytes(bytes.fromhex(digits.decode("ascii", "replace")), "little")
    except ValueError:
        return False
    session.set_register(hart, _BY_NUMBER[number], value)
    return True
