"""Traces for Perfetto (ui.perfetto.dev): recordings and instruction traces as slices on tracks."""
