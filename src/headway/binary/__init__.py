"""Executables and what names their code, as bytes from outside: ELF, DWARF lines, symbols, perf maps, kallsyms."""
