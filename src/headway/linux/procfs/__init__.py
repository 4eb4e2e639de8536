"""What the kernel tells by files: /proc of processes and threads, their namespaces and control groups, processors."""
