"""Policies that decide when to look into a buffer, one in each file, the same for every kind of buffer."""
