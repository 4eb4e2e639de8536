"""The report as one HTML file that opens without a network: what is in it, and how it is packed. docs/html.md."""
