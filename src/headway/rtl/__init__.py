"""The progress unit of the reference machine as hardware, in Amaranth.

`headway.rtl.progress.ProgressUnit` is the unit; docs/rtl.md has its block diagram and ports. `headway.rtl.cosimulation`
runs it on what the machine's cores do in each cycle, and `headway.rtl.proofs` proves what it counts. All of this needs
the extra ``rtl``, and nothing else of headway imports it.
"""
