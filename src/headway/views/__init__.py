"""How a ledger is shown. Views know the model and nothing of sources."""
