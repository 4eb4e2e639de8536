"""The eBPF programs in C, and what loads, calibrates and reads them."""
