"""The error of everything that keeps headway from measuring by eBPF."""

from __future__ import annotations

from headway.errors import HeadwayError

__all__ = ["UnavailableError"]


class UnavailableError(HeadwayError):
    """Measuring by eBPF is not possible here, but /proc can be measured.

    ``cause``: what was tried and what refused it; ``advice``: what makes it possible. The sentence also names the
    other source, which cause and advice do not: whoever takes that source by itself shows these two.
    """

    def __init__(self, cause: str, advice: str) -> None:
        super().__init__(cause, advice)

    def __str__(self) -> str:
        return f"{self.cause}: {self.advice}, or use --source proc"

    def __reduce__(self) -> tuple[type[HeadwayError], tuple[str, str]]:
        return type(self), (self.cause, self.advice)
