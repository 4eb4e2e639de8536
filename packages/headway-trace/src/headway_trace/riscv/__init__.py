"""RISC-V operations and the decoding of instruction words, shared by the machine and the traces of it."""
