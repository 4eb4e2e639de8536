"""What the kernel tells through files: /proc of processes and threads, namespaces, control groups, processors."""
