"""What the eBPF programs and their readers share: the layout of the memory, the states, the settings, the maps."""
