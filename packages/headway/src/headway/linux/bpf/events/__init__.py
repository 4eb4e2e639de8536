"""What happens at each event: a span ends and is charged, and the next one begins."""
