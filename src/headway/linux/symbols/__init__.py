"""From addresses in a running process to names: functions, lines of source, locks."""
