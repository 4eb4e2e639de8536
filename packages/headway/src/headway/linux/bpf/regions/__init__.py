"""Regions that a thread marks in its own code, and functions that the user marks."""
