"""RISC-V: operations, and instruction words decoded. The machine executes what the traces decode."""
