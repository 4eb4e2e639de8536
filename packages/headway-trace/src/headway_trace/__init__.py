"""Instruction traces: from the bytes of a trace port to what every thread was executing at which cycle.

Each layer can be used without those above it. ``coresight`` separates a buffer's bytes by source, ``etmv3``, ``ptm``
and ``etmv4`` turn a stream's bytes into packets, flows turn packets and a program image into instructions, and
``alignment`` puts the times of several streams on a common clock. Losses and contradictions are records like the
others, never messages.
"""
