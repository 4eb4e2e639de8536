"""Traces for Perfetto (ui.perfetto.dev): what tracks did as slices, of recordings and of instruction traces."""
