"""How often the exercising process does what it is asked for in a round: what it and those who ask it must know."""

MARKS = 400
"""Regions in a round."""
CALLS, READS, POLLS, LOOKS, FAULTS, HANDOVERS, FUNCTION_CALLS = 400, 300, 300, 300, 64, 120, 400
ENTERED = CALLS + READS + POLLS + LOOKS + 4 * HANDOVERS
"""Calls in a round."""
SAMPLED_CALLS = 20_000
"""Calls in a round in which some samples are taken."""
WAYS_BACK = 32
"""Of each kind in a round."""
