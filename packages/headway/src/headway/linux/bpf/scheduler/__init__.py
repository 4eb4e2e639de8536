"""Threads off the processor, and what has the processor meanwhile."""
