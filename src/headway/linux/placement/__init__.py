"""Where threads run: cpusets and affinity, the plan for a remedy, and the journal that takes it back."""
