"""Speed, memory and accuracy, measured: as ratios within one run, beside the peer or the floor.

``python -m benchmarks`` runs them all; each module can be run alone and prints one table. Results with date and machine
stand in docs/performance.md and docs/accuracy.md.
"""
