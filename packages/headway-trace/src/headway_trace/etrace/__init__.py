"""Traces of RISC-V E-Trace, "Efficient Trace for RISC-V", 2.0: parameters, packets, flow, reading."""
