"""What a design costs on an FPGA: cells, flip-flops and the highest clock, by Yosys and nextpnr for Lattice ECP5."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError

from .tools import place_and_route, to_rtlil, yosys

__all__ = ["Cost", "highest_clock", "synthesise", "synthesise_verilog"]

_SMALL = 12_000
"""Look-up tables that fit into the small device, with room to route."""
_FREQUENCY = 50
"""The clock that nextpnr is asked for, MHz."""
_HIDE = "rename -hide"
"""Takes the names of all but ports. Amaranth names the parts of an array as ``states[0]``, and so does Yosys the bits
of ``states``. Where a part has several bits, Yosys 0.70 confuses the two behind ABC, and ends with an assertion.
"""
_LUTS_OF = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
"""Look-up tables that a cell takes: a carry cell two, and a memory of 16 words of 4 bits three slices of two each."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a design on a Lattice ECP5."""

    luts: int
    """Look-up tables of 4 inputs, those of carry cells and memories among them."""
    carries: int
    """Carry cells (CCU2C), of two bits each."""
    memories: int
    """Memories in look-up tables (TRELLIS_DPR16X4), of 16 words of 4 bits each."""
    flip_flops: int
    megahertz: float | None = None
    """The highest clock after placing and routing, at nextpnr's default speed grade; None: it was not placed."""


def synthesise(design: object, folder: Path, seconds: int | None = None) -> Cost:
    """Synthesise a component. The netlist stays in the folder, for `highest_clock`.

    Raises HeadwayError if Yosys fails, TimeLimitError if it takes more than ``seconds`` of processor time.
    """
    (folder / "design.il").write_text(to_rtlil(design, "top"), encoding="utf-8")
    return _synthesised("read_rtlil design.il", "top", folder, seconds)


def synthesise_verilog(source: Path, top: str, folder: Path, seconds: int | None = None) -> Cost:
    """Synthesise the module ``top`` of a Verilog file, as `synthesise`. Raises HeadwayError, OSError."""
    (folder / "design.v").write_bytes(source.read_bytes())
    return _synthesised("read_verilog design.v", top, folder, seconds)


def _synthesised(read: str, top: str, folder: Path, seconds: int | None) -> Cost:
    steps = (read, _HIDE, f"synth_ecp5 -top {top} -noiopad -json design.json", "tee -q -o stat.json stat -json")
    yosys("; ".join(steps), folder, seconds)
    cells = json.loads((folder / "stat.json").read_text(encoding="utf-8"))["design"]["num_cells_by_type"]
    return Cost(
        luts=sum(cells.get(name, 0) * luts for name, luts in _LUTS_OF.items()),
        carries=cells.get("CCU2C", 0),
        memories=cells.get("TRELLIS_DPR16X4", 0),
        flip_flops=cells.get("TRELLIS_FF", 0),
    )


def highest_clock(cost: Cost, folder: Path, seconds: int | None = None) -> float:
    """Place and route what was synthesised in the folder, without pins, as a part of a larger design.

    Return its highest clock in MHz. Raises HeadwayError if nextpnr fails, TimeLimitError if it
    takes more than ``seconds`` of processor time.
    """
    device = "25k" if cost.luts < _SMALL else "85k"
    place_and_route(
        [
            *("--json", "design.json", f"--{device}", "--package", "CABGA381", "--out-of-context", "--seed", "1"),
            *("--freq", str(_FREQUENCY), "--timing-allow-fail", "--report", "report.json", "--quiet"),
        ],
        folder,
        seconds,
    )
    clocks = json.loads((folder / "report.json").read_text(encoding="utf-8"))["fmax"]
    if not clocks:
        raise HeadwayError("nextpnr has found no clock in the design")
    return float(min(clock["achieved"] for clock in clocks.values()))
