"""The names of the exceptions of Arm's M profile. Source: ARM DDI 0403E.e, B1.5.2; ARM DDI 0553B, B3.9."""

from __future__ import annotations

__all__ = ["EXTERNAL", "exception_name"]

EXTERNAL = 16
"""The number of the first external interrupt, IRQ0."""
_NAMES = {
    0: "Thread",
    1: "Reset",
    2: "NMI",
    3: "HardFault",
    4: "MemManage",
    5: "BusFault",
    6: "UsageFault",
    7: "SecureFault",
    11: "SVCall",
    12: "DebugMonitor",
    14: "PendSV",
    15: "SysTick",
}


def exception_name(number: int) -> str:
    """Return the architecture's name of an exception; of number 0, that of Thread mode, to which handlers return."""
    return f"IRQ{number - EXTERNAL}" if number >= EXTERNAL else _NAMES.get(number, f"exception {number}")
