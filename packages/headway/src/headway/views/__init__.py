"""Views: they show a ledger. They know the model and nothing of sources."""
