"""A server of GDB's remote protocol, by which a debugger stops, steps and inspects the machine's harts as threads."""
