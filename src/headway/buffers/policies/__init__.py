"""When to look into a buffer: one policy a file, the same for every kind of buffer."""
