"""The live screen, drawn with Textual: what `headway top` shows, whatever its ledgers come from."""
