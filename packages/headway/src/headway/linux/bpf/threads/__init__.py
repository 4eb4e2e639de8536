"""The threads that are measured: which they are, the record and the cells of each, and what is left when it ends."""
