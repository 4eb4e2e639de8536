"""perf_event_open(2): events and counters by name, and the ring buffers of samples."""
