"""The six-thread protocol: traces of the machine, whose threads share a core cycle by cycle (docs/trace-format.md)."""
