"""The live screen of ``headway top``, drawn with Textual. It works with ledgers from any source."""
