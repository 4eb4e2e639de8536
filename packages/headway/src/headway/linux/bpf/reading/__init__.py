"""Read the memory that the eBPF programs write, as of one moment, and write what they are to know."""
