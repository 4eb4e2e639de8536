"""Measuring a running Linux: the sources (eBPF, /proc), and the parts that they use."""
