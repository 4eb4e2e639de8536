"""The units of the reference machine as hardware, in Amaranth: progress unit, state monitor, profile buffer.

`headway.rtl.progress.ProgressUnit`, `headway.rtl.monitor.StateMonitor` and `headway.rtl.profile_buffer.ProfileBuffer`
are the units; docs/rtl.md has their block diagrams and ports. `headway.rtl.cosimulation` runs the progress unit on what
the machine's cores do in each cycle, and `headway.rtl.proofs` proves what it counts. All of this needs the extra
``rtl``, and nothing else of headway imports it.
"""
