"""Program images for the machine: programs for RV32 that lie in the memory that it has."""

from __future__ import annotations

from headway_trace.riscv.program import ImageError, LoadSegment, NumberNames, ProgramImage

from .config import RAM, TCM, Config

__all__ = ["ImageError", "LoadSegment", "MachineImage", "NumberNames"]


class MachineImage(ProgramImage):
    """A program for the machine."""

    __slots__ = ()

    def check(self, config: Config) -> None:
        """Check that the image fits into the memory of a machine with this configuration. Raises ImageError."""
        memories = ((RAM, RAM + config.memory.ram), (TCM, TCM + config.memory.tcm))
        for segment in self.segments:
            if not any(start <= segment.address and segment.end <= end for start, end in memories):
                headers = segment.data[:4] == b"\x7fELF"
                remedy = "leave the file's headers out of it (-Wl,--nmagic)" if headers else "link it there"
                raise ImageError(
                    f"{self.name} has a segment at {segment.address:#x} to {segment.end:#x}, outside RAM "
                    f"({memories[0][0]:#x} to {memories[0][1]:#x}): {remedy}, or give the machine more memory.ram"
                )
        if not any(start <= self.entry < end for start, end in memories):
            raise ImageError(
                f"{self.name} starts at {self.entry:#x}, outside RAM "
                f"({memories[0][0]:#x} to {memories[0][1]:#x}): link it there"
            )
        for symbol, address in (("tohost", self.tohost), ("fromhost", self.fromhost)):
            if address is not None and not memories[0][0] <= address <= memories[0][1] - 8:
                raise ImageError(f"{self.name} has its symbol {symbol} at {address:#x}, outside RAM: link it there")

    @property
    def end(self) -> int:
        """The address after the last segment in RAM."""
        return max((segment.end for segment in self.segments if segment.address >= RAM), default=RAM)
