"""Sources for a running Linux: eBPF, /proc."""
