"""Benchmarks of speed, memory and accuracy, as ratios within one run, beside a peer or the floor.

``python -m benchmarks`` runs all of them. Each module can also be run alone and prints one table. performance.md and
accuracy.md in docs/headway have the results, with date and machine.
"""
