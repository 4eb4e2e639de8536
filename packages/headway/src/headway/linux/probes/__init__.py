"""Static probes (USDT) of programs at which tasks begin and end."""
