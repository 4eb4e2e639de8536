"""Utilisation and effective frequency of processors, read from all of them at the same moment."""
