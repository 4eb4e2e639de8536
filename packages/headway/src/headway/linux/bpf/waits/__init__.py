"""What threads wait for, and what ends a wait."""
