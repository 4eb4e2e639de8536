"""The reference machine: a multi-threaded RISC-V processor, simulated to the cycle, with the progress unit in hardware.

How it behaves is described in docs/machine.md; this package is the simulator and what is around it: configuration,
program images, the host that programs call, and the ledger that comes out.
"""
