"""Code that the user declares to be no progress: marked regions of a program, and marked functions."""
