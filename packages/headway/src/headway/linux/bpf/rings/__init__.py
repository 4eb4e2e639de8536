"""Transitions, one by one: written to rings by the programs, and read into rows."""
