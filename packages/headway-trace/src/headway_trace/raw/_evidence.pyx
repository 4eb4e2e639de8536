"""What the packets of a stream say for the setting with which they were read.

A stretch lies between two synchronisations (A-sync), or after the last. It is clean if all of it is packets, and it
begins as the protocol has it. A stretch of bytes that another protocol or setting has written is hardly ever clean.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from headway_trace._packets cimport (
    ALIGNMENT, COUNT, DISCARD, HARDWARE, INCOMPLETE, KINDS, LOST, NOISE, SYNC, Packet, Packets,
)

from headway_trace.raw.evidence import Evidence


def evidence_of(blocks, int leading):
    """Return the evidence in blocks of packets. ``leading``: the kind of the first packet of a stretch; -1: any."""
    cdef uint64_t within[64]
    cdef uint64_t total[64]
    cdef uint8_t seen[256]
    cdef uint64_t alignments = 0, clean = 0, dirty = 0, before = 0, noise = 0, packets = 0, counted = 0
    cdef uint64_t size = 0, wrong = 0, here = 0, here_counted = 0, length
    cdef bint began = False
    cdef Packets block
    cdef Packet* p
    cdef int kind
    cdef Py_ssize_t i, number, last = len(blocks) - 1
    memset(within, 0, sizeof(within))
    memset(total, 0, sizeof(total))
    memset(seen, 0, sizeof(seen))
    for number in range(len(blocks) + 1):
        block = blocks[number] if number <= last else Packets()
        for i in range(block.size + (number > last)):
            p = &block.data[i] if number <= last else NULL
            if p == NULL or p.kind == ALIGNMENT:
                if not alignments:
                    before = size
                elif wrong or not began and (leading >= 0 and p != NULL):
                    dirty += size
                else:
                    clean += size
                    packets += here
                    counted += here_counted
                    for kind in range(KINDS):
                        total[kind] += within[kind]
                noise += wrong
                memset(within, 0, sizeof(within))
                size = wrong = here = here_counted = 0
                began = False
                if p == NULL:
                    break
                alignments += 1
                size = p.size
                continue
            length = p.count if p.kind <= INCOMPLETE else p.size
            size += length
            if p.kind == NOISE or p.kind == HARDWARE:
                wrong += length
                continue
            if leading >= 0 and not began and p.kind != DISCARD and p.kind != LOST:
                if p.kind != leading and p.kind != INCOMPLETE:
                    wrong += 1
            began = True
            here += 1
            within[p.kind] += 1
            seen[p.header] = 1
            here_counted += p.kind == SYNC and p.has & COUNT != 0
    headers = 0
    for i in range(256):
        headers += seen[i]
    counts = tuple([total[i] for i in range(KINDS)])
    return Evidence(alignments, clean, dirty, before, noise, packets, counted, counts, headers)
