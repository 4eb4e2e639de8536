"""Load the eBPF programs into the kernel and attach them, and say why that is not possible."""
