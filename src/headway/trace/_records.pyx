"""Records in C, which become those of `records` one by one when they are asked for."""

from libc.stdlib cimport free

from headway.trace.records import Exception_, Gap, Instruction, Timestamp, Why


cdef class Records:
    """A sequence of records."""

    def __dealloc__(self):
        free(self.data)

    def __iter__(self):
        return (self[i] for i in range(self.size))

    def __len__(self):
        return self.size

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.size:
            raise IndexError(i)
        cdef Row* r = &self.data[i]
        cycle = r.cycle if r.counted else None
        if r.sort == INSTRUCTION:
            return Instruction(
                cycle, r.cycles if r.counted else None, r.address, r.size,
                None if r.executed == UNTRACED else r.executed == PASSED,
                r.thread if self.threads else None, r.epoch, r.index,
            )
        if r.sort == GAP:
            return Gap(Why(r.why), cycle, r.cycles if r.counted and not r.size else None, r.index, r.end, r.epoch)
        if r.sort == TIME:
            return Timestamp(r.cycles, cycle, r.epoch, r.index)
        return Exception_(r.thread, None if r.size else r.address, cycle, r.epoch, r.index)

    def instructions(self):
        """Return (address, size, cycles) of each instruction without making records, to compare many of them."""
        cdef Py_ssize_t i
        return [
            (self.data[i].address, self.data[i].size, self.data[i].cycles)
            for i in range(self.size) if self.data[i].sort == INSTRUCTION
        ]
