"""What this machine and this user can measure, found by trying."""
