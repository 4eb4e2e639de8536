"""The eBPF programs in C, and the modules that load, calibrate and read them."""
