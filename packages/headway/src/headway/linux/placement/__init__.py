"""What is placed where: processes, their memory and interrupts; the plan for a remedy, and the undo journal."""
