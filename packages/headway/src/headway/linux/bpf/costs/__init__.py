"""What the handlers of events cost: found beforehand, and followed while a measurement runs."""
