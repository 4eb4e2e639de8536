"""Questions to recordings: one run or those of many machines, by SQL, on one engine or another.

`catalogue` finds the recordings, an engine (`duck`, or any that Ibis speaks to) reads their tables, `tables` makes of
them what users query, the same on every engine, and `questions`, `instant` and `comparison` ask.
"""
