"""A file of raw bytes as a probe, a trace buffer or a serial port gave them: what is in it is found by evidence.

`framing` finds how the streams of several sources share the bytes, `protocols` the protocol and setting of each stream,
`opening` what that makes of a file: a snapshot, as if a device file had said it.
"""
