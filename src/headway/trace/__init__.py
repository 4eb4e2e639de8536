"""Instruction traces: from a trace port's bytes to what every thread was executing at which cycle.

The layers, each usable without those above it: a buffer's bytes are taken apart by source (``coresight``), a stream's
bytes become packets (``etmv3``), packets and a program image become instructions (``flow``), and the times of several
streams are laid over each other (``alignment``). Losses and contradictions are values among the others, never messages.
"""
