"""The frames of interpreters: the programs read them (python.h), and a reader learns the names of their functions."""
