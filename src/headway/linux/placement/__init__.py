"""Where threads run: cpusets and affinity, the plan for a remedy, and the undo journal."""
