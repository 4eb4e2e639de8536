"""From addresses in a running process to names: functions, source lines, locks."""
