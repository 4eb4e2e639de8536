"""Measuring a running Linux: the sources (eBPF, /proc), and what they read and use."""
