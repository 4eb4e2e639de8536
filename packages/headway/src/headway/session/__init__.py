"""A measurement from beginning to end: the child process, and the sources that measure it."""
