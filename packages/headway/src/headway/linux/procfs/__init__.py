"""Reading the kernel's files: /proc of processes and threads, namespaces, control groups, processors."""
