"""What is placed where: processes and interrupts; the plan for a remedy, and the undo journal."""
