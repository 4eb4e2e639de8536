"""Samples of what a thread executes, and the stacks of threads off the processor."""
