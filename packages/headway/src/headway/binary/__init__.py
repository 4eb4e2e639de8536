"""Executables and the names of their code, read as untrusted bytes: ELF, DWARF lines, symbols, perf maps, kallsyms."""
