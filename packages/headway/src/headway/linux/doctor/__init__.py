"""What this machine and this user can measure, found out by trying."""
