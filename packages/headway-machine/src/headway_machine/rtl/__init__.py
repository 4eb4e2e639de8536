"""The units of the reference machine as hardware, in Amaranth: progress unit, state monitor, profile buffer.

`headway.rtl.progress.ProgressUnit`, `headway.rtl.monitor.StateMonitor` and `headway.rtl.profile_buffer.ProfileBuffer`
are the units; docs/rtl.md has their block diagrams and ports. `headway.rtl.core` is a processor around the
progress unit. `headway.rtl.cosimulation` runs the unit on what the machine's cores do in each cycle, and programs on
the processor and the machine; `headway.rtl.proofs` proves what the unit counts. All of this needs the extra
``rtl``, and nothing else of headway imports it.
"""
