"""Serving readings over HTTP: addresses and tokens, the process that listens, its pages, and the service manager."""
