"""What counts as no progress by the user's words: marked regions of a program, and marked functions."""
