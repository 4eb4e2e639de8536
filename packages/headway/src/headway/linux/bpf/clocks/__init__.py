"""The kernel's own clocks of threads: the programs that read them, and the accounts that are made of them."""
