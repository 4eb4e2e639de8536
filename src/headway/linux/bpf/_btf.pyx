# cython: language_level=3, embedsignature=True
"""Find types in the kernel's type information by their names (BTF, Documentation/bpf/btf.rst of Linux)."""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memchr, memcmp

cdef extern from *:
    """
    #include <stdint.h>

    /* include/uapi/linux/btf.h: struct btf_header and struct btf_type, without what nobody needs here. */
    struct btf_head {
        uint16_t magic;
        uint8_t version, flags;
        uint32_t hdr_len, type_off, type_len, str_off, str_len;
    };
    struct btf_type_head {
        uint32_t name_off, info, size_or_type;
    };
    enum { BTF_HEAD = sizeof(struct btf_head), BTF_TYPE = sizeof(struct btf_type_head) };

    /* How many bytes follow the head of a type of this kind with so many members. -1: the kind is not known. */
    static long btf_more(uint32_t kind, uint32_t members) {
        switch (kind) {
        case 2: case 7: case 8: case 9: case 10: case 11: case 12: case 16: case 18: return 0;
        case 1: case 14: case 17: return 4;
        case 3: return 12;
        case 4: case 5: case 15: case 19: return 12l * members;
        case 6: case 13: return 8l * members;
        }
        return -1;
    }
    """
    struct btf_head:
        uint16_t magic
        uint32_t hdr_len, type_off, type_len, str_off, str_len
    struct btf_type_head:
        uint32_t name_off, info
    enum:
        BTF_HEAD
        BTF_TYPE
    long btf_more(uint32_t kind, uint32_t members) nogil


def find(bytes types, int kind, bytes prefix):
    """Return the numbers of the types of a kind (BTF_KIND_...) whose names begin so, by the rest of the name.

    Raises ValueError where these bytes are no type information, or end early, or have a kind that is not known.
    """
    cdef const unsigned char *data = types
    cdef size_t length = len(types), size = len(prefix), at, end, strings, name
    cdef const char *wanted = prefix
    cdef const btf_head *head = <const btf_head *>data
    cdef const btf_type_head *one
    cdef const unsigned char *stop
    cdef uint32_t number = 0
    cdef long more
    if length < BTF_HEAD or head.magic != 0xEB9F:
        raise ValueError("this is no BTF")
    at = <size_t>head.hdr_len + head.type_off
    end = at + head.type_len
    strings = <size_t>head.hdr_len + head.str_off
    if end > length or strings + head.str_len > length:
        raise ValueError("the BTF ends early")
    found = {}
    while at + BTF_TYPE <= end:
        one = <const btf_type_head *>(data + at)
        number += 1
        more = btf_more(one.info >> 24 & 0x1F, one.info & 0xFFFF)
        if more < 0:
            raise ValueError(f"BTF of kind {one.info >> 24 & 0x1F}")
        if <int>(one.info >> 24 & 0x1F) == kind and one.name_off + size < head.str_len:
            name = strings + one.name_off
            if not memcmp(data + name, wanted, size):
                stop = <const unsigned char *>memchr(data + name, 0, strings + head.str_len - name)
                if stop != NULL:
                    found[types[name + size : stop - data].decode("ascii", "replace")] = number
        at += BTF_TYPE + <size_t>more
    return found
