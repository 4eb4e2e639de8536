"""A barrel processor for RV32I with the progress unit attached: the smallest core in which the unit can be tried.

`barrel.BarrelCore` is the core, `computer.Computer` the core with a timer and a UART. docs/rtl.md says what the core
leaves out.
"""
