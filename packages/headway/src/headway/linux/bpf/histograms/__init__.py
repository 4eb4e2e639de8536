"""How long the single occurrences of a state lasted."""
