"""The reference machine: a multi-threaded RISC-V processor, simulated to the cycle, with a progress unit in hardware.

docs/machine.md specifies how the machine behaves. This package holds the simulator and what surrounds it: the
configuration, program images, the host that programs call, and the ledger of a run.
"""
