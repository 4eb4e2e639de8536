"""perf.data: what ``perf record`` wrote, as far as traces of processors need it.

`file` reads the header and finds the records, `events` gives them their meaning, `areas` puts the pieces of each AUX
area together, `sideband` knows which thread ran when and what was in its memory, and `clock` relates the trace's ticks
to perf's clock.
"""
