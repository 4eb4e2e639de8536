"""The report as one HTML file that opens without a network: its content and its packing. See docs/html.md."""
