"""What the subcommands share: parameter types, common options, output, progress bars, messages and exit status."""
