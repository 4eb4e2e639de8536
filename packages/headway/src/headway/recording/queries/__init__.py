"""Queries on recordings: one run, or those of many machines, in SQL, on DuckDB or another engine.

`catalogue` finds the recordings. An engine (`duck`, or any that Ibis supports, in `elsewhere`) reads their files.
`tables` defines the tables that users query, the same on every engine. `questions`, `instant` and `comparison` ask.
"""
