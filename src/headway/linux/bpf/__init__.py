"""The eBPF programs in C, and how they are compiled."""
