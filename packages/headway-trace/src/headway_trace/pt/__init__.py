"""Intel Processor Trace, decoded by libipt.

`library` loads libipt, `_decoder` calls it and makes records of its blocks, `setting` has what the decoder must know of
the processor, `image` what was in memory, and `capture` opens a file of packets.
"""
