"""The option --work: how much work there is, in EPI or in steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from headway.linux.levels import Level
from headway.linux.options import STATE_NAME

from .parameters import Seconds

if TYPE_CHECKING:
    from headway.model.work import FollowedWork, Work

    from .options import TargetOptions

__all__ = ["check_work", "followed", "work_option"]


class _Work(click.ParamType["Work"]):
    """Seconds of EPI, ``30``, or a number of steps, ``render=5000``."""

    name = "work"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Work:
        """Text to work."""
        from headway.model.work import Work

        if isinstance(value, Work):
            return value
        tag, equals, number = value.rpartition("=")
        if not equals:
            return Work(round(Seconds().convert(value, param, ctx) * 1e9))
        if not STATE_NAME.fullmatch(tag) or not re.fullmatch(r"[1-9]\d{0,14}", number, re.ASCII):
            self.fail(
                f"{value!a:.60} is no work: give seconds of EPI, or TAG=NUMBER for so many regions user.TAG", param, ctx
            )
        return Work(int(number), tag)


work_option = click.option(
    "--work",
    type=_Work(),
    metavar="SECONDS|TAG=NUMBER",
    help="The work needs so much EPI, or so many entries of the marked region user.TAG: say at each reading when it "
    "will be done (docs/prediction.md).",
)


def check_work(work: Work | None, wanted: TargetOptions) -> None:
    """Raise UsageError if work is given in steps that would not be counted."""
    if work is None or not work.tag:
        return
    if wanted.budget or wanted.level == Level.CLOCKS.value:
        raise click.UsageError(
            "--work TAG=NUMBER counts every step: leave out --budget, or give --level switches or more"
        )


def followed(work: Work | None) -> FollowedWork | None:
    """Return what follows the work; None: there is none."""
    if work is None:
        return None
    from headway.model.work import FollowedWork

    return FollowedWork(work)
