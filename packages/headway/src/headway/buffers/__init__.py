"""Per-thread buffers that the kernel or the machine fills, and the policies that decide when to read them."""
