"""Small snapshot folders for tests."""

from __future__ import annotations

from pathlib import Path

from .encoding import ALIGNMENT, atom, branch, frames, sync, timestamp
from .programs import BASE

PROGRAM = b"\x00\xbf" * 64 + b"\x70\x47" + b"\x00\xbf" * 63
"""64 nop, bx lr, 63 nop."""

STREAM = (
    b"\x84\x84"
    + ALIGNMENT
    + sync(BASE, reason=1, cycles=5)
    + timestamp(1000)
    + atom(True, 10) * 64
    + timestamp(1064)
    + atom(True, 10)
    + branch(BASE + 4)
    + atom(True, 20) * 20
    + timestamp(1105)
)


def write(folder: Path, buffer: bytes | None = None, **changes: str | None) -> Path:
    """A folder of one ETM and one STM. ``changes``: other text of a file (``trace`` for trace.ini …); None: no file."""
    folder.mkdir(exist_ok=True)
    files: dict[str, str | None] = {
        "snapshot": "[snapshot]\nversion=1.0\n[device_list]\na=cpu.ini\nb=etm.ini\nc=stm.ini\n"
        "[trace]\nmetadata=trace.ini\n",
        "trace": "[trace_buffers]\nbuffers=buffer0\n[buffer0]\nname=ETB\nfile=trace.bin\nformat=coresight\n"
        "[source_buffers]\nETM=ETB\nSTM=ETB\n[core_trace_sources]\ncpu=ETM\n",
        "cpu": f"[device]\nname=cpu\nclass=core\ntype=Cortex-A7\n[dump]\nfile=memory.bin\naddress={BASE:#x}\n",
        "etm": "[device]\nname=ETM\nclass=trace_source\ntype=ETM3.5\n[regs]\nETMCR(0x000)=0x10001000\n"
        "ETMIDR(0x079)=0x410CF250\nETMCCER(0x07A)=0x344008F2\nETMTRACEIDR(0x080)=0x10\n",
        "stm": "[device]\nname=STM\nclass=trace_source\ntype=STM\n[regs]\nSTMTCSR(0x3A0)=0x00130005\n",
    }
    for name, text in {**files, **changes}.items():
        if text is not None:
            (folder / f"{name}.ini").write_text(text)
    (folder / "memory.bin").write_bytes(PROGRAM)
    data = frames([(0x10, STREAM), (0x13, b"\x01\x02\x03")]) if buffer is None else buffer
    (folder / "trace.bin").write_bytes(data)
    return folder
