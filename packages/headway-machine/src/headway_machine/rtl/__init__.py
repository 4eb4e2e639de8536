"""The units of the reference machine as hardware, in Amaranth: progress unit, state monitor, profile buffer.

The units are `progress.ProgressUnit`, `monitor.StateMonitor` and `profile_buffer.ProfileBuffer`; docs/rtl.md has their
block diagrams and ports. `core` is a processor around the progress unit. `cosimulation` runs the unit on what the
machine's cores do in each cycle, and programs on the processor and the machine; `proofs` proves what the unit counts.
All of this needs the extra ``rtl``, and nothing else of the machine imports it.
"""
