"""Serving readings over HTTP: addresses and tokens, the process that listens, and the service manager."""
