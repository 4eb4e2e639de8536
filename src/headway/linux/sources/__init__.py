"""What yields ledgers of a running Linux: eBPF, /proc, and who chooses between them."""
