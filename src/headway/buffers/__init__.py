"""Per-thread buffers that are filled without us, and when to look into them."""
