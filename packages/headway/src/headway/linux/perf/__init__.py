"""perf_event_open(2): events by name, counters, and the ring buffers of samples."""
