"""System calls: their numbers and names, and what a thread waits for in each."""
