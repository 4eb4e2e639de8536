"""ITM and DWT of Arm's M profile: what a program writes to stimulus ports, and what the processor tells of itself.

`packets` has the packets of one stream, `events` what they say and when, `answers` the rows that commands print.

Source: ARM DDI 0403E.e (ARMv7-M), appendix D4 "ITM and DWT packet protocol"; ARM DDI 0553B (ARMv8-M), F1.
"""
