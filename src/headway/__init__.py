"""headway: how much progress each thread of a real program makes, where the rest of its time goes and why."""

__version__ = "0.1.0"
