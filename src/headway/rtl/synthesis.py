"""What the progress unit costs on an FPGA: cells, flip-flops and the highest clock, by Yosys and nextpnr for ECP5."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError

from .tools import place_and_route, to_rtlil, yosys

__all__ = ["Cost", "cost_of"]

_SMALL = 20_000
"""Look-up tables that fit into the small device, with room to route."""
_FREQUENCY = 50
"""The clock that nextpnr is asked for, MHz."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a design on a Lattice ECP5."""

    luts: int
    """Look-up tables of 4 inputs, the two of each carry cell among them."""
    carries: int
    """Carry cells (CCU2C), of two bits each."""
    flip_flops: int
    megahertz: float | None
    """The highest clock after placing and routing, at nextpnr's default speed grade; None: it was not placed."""


def cost_of(design: object, *, place: bool) -> Cost:
    """Synthesise a component, and place it without pins, as a part of a larger design. Raises HeadwayError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "unit.il").write_text(to_rtlil(design, "top"), encoding="utf-8")
        yosys(
            "read_rtlil unit.il; synth_ecp5 -top top -noiopad -json unit.json; tee -q -o stat.json stat -json", folder
        )
        cells = json.loads((folder / "stat.json").read_text(encoding="utf-8"))["design"]["num_cells_by_type"]
        carries = cells.get("CCU2C", 0)
        luts = cells.get("LUT4", 0) + 2 * carries
        megahertz = _highest_clock(folder, "25k" if luts < _SMALL else "85k") if place else None
    return Cost(luts, carries, cells.get("TRELLIS_FF", 0), megahertz)


def _highest_clock(folder: Path, device: str) -> float:
    place_and_route(
        [
            *("--json", "unit.json", f"--{device}", "--package", "CABGA381", "--out-of-context", "--seed", "1"),
            *("--freq", str(_FREQUENCY), "--timing-allow-fail", "--report", "report.json", "--quiet"),
        ],
        folder,
    )
    clocks = json.loads((folder / "report.json").read_text(encoding="utf-8"))["fmax"]
    if not clocks:
        raise HeadwayError("nextpnr has found no clock in the design")
    return float(min(clock["achieved"] for clock in clocks.values()))
