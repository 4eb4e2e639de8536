"""Connect what measures, where tests run, with what gathers and shows, where pytest has its terminal."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError

from .phases import Phases
from .results import Results

__all__ = ["start"]


def start(config: pytest.Config) -> None:
    """Register the plugins; of pytest-xdist's processes the workers measure and the other one shows.

    Raises pytest.UsageError with one sentence.
    """
    phases = Phases(config)
    config.pluginmanager.register(phases, "headway-phases")
    if not hasattr(config, "workerinput"):
        try:
            config.pluginmanager.register(Results(config, phases), "headway-results")
        except HeadwayError as error:
            raise pytest.UsageError(f"headway: {error}") from None
