"""Tables of what threads used: system calls by process, call and file. Loaded only where they are asked for."""
