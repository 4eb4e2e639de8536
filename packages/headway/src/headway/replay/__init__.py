"""What if: the critical path of a recorded run, and a replay of its wait graph with something changed.

`rows` reads a recording into spans by thread. `wakeups` finds where each wait was ended. `path` walks back along the
wake-ups. `graph` makes of the spans what each thread does in turn, and `predict` replays that with changes (`changes`).
`candidates` lists the changes that are worth trying.
"""
