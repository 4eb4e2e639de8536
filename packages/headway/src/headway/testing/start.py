"""Registration of the plugins that measure and that show."""

from __future__ import annotations

import pytest

from headway.errors import HeadwayError

from .phases import Phases
from .results import Results

__all__ = ["start"]


def start(config: pytest.Config) -> None:
    """Register the plugins. With pytest-xdist the workers measure and the main process shows.

    Raises pytest.UsageError with one sentence.
    """
    phases = Phases(config)
    config.pluginmanager.register(phases, "headway-phases")
    if not hasattr(config, "workerinput"):
        try:
            config.pluginmanager.register(Results(config, phases), "headway-results")
        except HeadwayError as error:
            raise pytest.UsageError(f"headway: {error}") from None
