"""A barrel processor for RV32I with the progress unit attached: the smallest core in which the unit can be tried.

`headway.rtl.core.barrel.BarrelCore` is the core, `headway.rtl.core.computer.Computer` the core with a timer and a UART.
docs/rtl.md has the block diagram, the ports, and what the core leaves out.
"""
