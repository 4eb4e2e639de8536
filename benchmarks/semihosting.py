"""What programs of picolibc need of their host, so that they run on the machine without a debugger."""

from __future__ import annotations

from headway_machine._processor import MachineProcessor

SYS_GET_CMDLINE = 0x15
"""What picolibc asks its host for before main()."""


def answered(processor: MachineProcessor) -> bool:
    """Tell a program that it has no command line. Return False if it asked for something else, which is its end."""
    hart = processor.stopped_hart
    if processor.register(hart, 10) != SYS_GET_CMDLINE:
        return False
    processor.set_register(hart, 10, 0xFFFFFFFF)
    return True
