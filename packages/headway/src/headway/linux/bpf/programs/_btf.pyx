# cython: language_level=3, embedsignature=True
"""Find types in the kernel's type information by their names (BTF, Documentation/bpf/btf.rst of Linux)."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memchr, memcmp, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>

    /* include/uapi/linux/btf.h: struct btf_header. */
    struct btf_head {
        uint16_t magic;
        uint8_t version, flags;
        uint32_t hdr_len, type_off, type_len, str_off, str_len;
    };
    enum { BTF_HEAD = sizeof(struct btf_head), BTF_TYPE = 12 /* name_off, info, size or type: 32 bits each */ };

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

    enum { KIND_PTR = 2, KIND_ARRAY, KIND_STRUCT, KIND_UNION, KIND_ENUM, KIND_TYPEDEF = 8, KIND_VOLATILE, KIND_CONST,
           KIND_RESTRICT, KIND_FUNC_PROTO = 13, KIND_TYPE_TAG = 18, KIND_ENUM64 };
    enum { SLOTS = 1 << 13 };

    struct btf_view {
        const unsigned char *types, *strings;
        size_t types_size, strings_size;
        uint32_t n; /* of types; the first is 1 */
        uint32_t *at; /* where each is, by its number */
    };

    static uint32_t word_at(const unsigned char *at) {
        uint32_t word;
        memcpy(&word, at, sizeof(word));
        return word;
    }

    /* Return how many letters a name has before the flavor ("___"), which libbpf does not compare. */
    static size_t name_length(const struct btf_view *view, uint32_t name, size_t *whole) {
        const char *text = (const char *)view->strings + name;
        *whole = name < view->strings_size ? strnlen(text, view->strings_size - name) : 0;
        for (size_t i = *whole < 5 ? 0 : *whole - 4; i; i--)
            if (!memcmp(text + i, "___", 3) && text[i - 1] != '_' && text[i + 3] != '_')
                return i;
        return *whole;
    }

    static uint32_t name_hash(const unsigned char *text, size_t length) {
        uint32_t hash = 2166136261u; /* FNV-1a */
        while (length--)
            hash = (hash ^ *text++) * 16777619u;
        return hash;
    }

    static int has_parts(uint32_t kind) { return kind == KIND_STRUCT || kind == KIND_UNION; }

    /* Whether libbpf looks for types of this kind by their names. */
    static int is_looked_for(uint32_t kind) {
        return has_parts(kind) || kind == KIND_ENUM || kind == KIND_TYPEDEF || kind == KIND_ENUM64;
    }

    static int is_modifier(uint32_t kind) {
        return (kind >= KIND_TYPEDEF && kind <= KIND_RESTRICT) || kind == KIND_TYPE_TAG;
    }

    /* Fill the view's numbers. Returns 0, or -1 - the kind that is not known, or -1000: the last type ends too late. */
    static long view_types(struct btf_view *view) {
        size_t at = 0;
        for (view->n = 0; at + BTF_TYPE <= view->types_size;) {
            uint32_t info = word_at(view->types + at + 4);
            long more = btf_more(info >> 24 & 0x1F, info & 0xFFFF);
            if (more < 0)
                return -1 - (long)(info >> 24 & 0x1F);
            view->at[++view->n] = at;
            at += BTF_TYPE + more;
            if (at > view->types_size)
                return -1000;
        }
        return 0;
    }

    static void remember(const struct btf_view *of, uint32_t *slots, uint32_t number) {
        size_t whole;
        uint32_t name = word_at(of->types + of->at[number]);
        size_t length = name_length(of, name, &whole);
        uint32_t slot = name_hash(of->strings + name, length) % SLOTS;
        for (unsigned i = 0; length && i < SLOTS; i++, slot = (slot + 1) % SLOTS)
            if (!slots[slot]) {
                slots[slot] = number;
                return;
            }
    }

    static int is_remembered(
        const struct btf_view *of, const uint32_t *slots, const unsigned char *text, size_t length) {
        uint32_t slot = name_hash(text, length) % SLOTS;
        for (unsigned i = 0; i < SLOTS && slots[slot]; i++, slot = (slot + 1) % SLOTS) {
            size_t whole;
            uint32_t name = word_at(of->types + of->at[slots[slot]]);
            if (name_length(of, name, &whole) == length && !memcmp(of->strings + name, text, length))
                return 1;
        }
        return 0;
    }

    /* The types that are taken: their new numbers, and in the order of these the old ones. */
    struct btf_taken {
        uint32_t *number, *order, n;
    };

    static int take(const struct btf_view *view, struct btf_taken *taken, uint32_t number) {
        if (number > view->n)
            return -1;
        if (number && !taken->number[number]) {
            taken->order[taken->n] = number;
            taken->number[number] = ++taken->n;
        }
        return 0;
    }

    /* Take what a type has in it, but not what it points to. */
    static int take_parts(const struct btf_view *view, struct btf_taken *taken, uint32_t number) {
        const unsigned char *type = view->types + view->at[number];
        uint32_t info = word_at(type + 4), kind = info >> 24 & 0x1F;
        int bad = 0;
        if (has_parts(kind))
            for (uint32_t i = 0; i < (info & 0xFFFF); i++)
                bad |= take(view, taken, word_at(type + BTF_TYPE + 12 * i + 4));
        else if (kind == KIND_ARRAY)
            bad = take(view, taken, word_at(type + BTF_TYPE)) | take(view, taken, word_at(type + BTF_TYPE + 4));
        else if (is_modifier(kind))
            bad = take(view, taken, word_at(type + 8));
        return bad;
    }

    struct btf_output {
        unsigned char *types, *strings; /* NULL: only the sizes are wanted */
        size_t types_size, strings_size;
    };

    static void put_word(struct btf_output *out, uint32_t word) {
        if (out->types)
            memcpy(out->types + out->types_size, &word, sizeof(word));
        out->types_size += sizeof(word);
    }

    static void put_name(struct btf_output *out, const struct btf_view *view, uint32_t name) {
        size_t length;
        name_length(view, name, &length);
        put_word(out, length ? out->strings_size : 0);
        if (!length)
            return;
        if (out->strings) {
            memcpy(out->strings + out->strings_size, view->strings + name, length);
            out->strings[out->strings_size + length] = 0;
        }
        out->strings_size += length + 1;
    }

    static void put_type(
        struct btf_output *out, const struct btf_view *view, const struct btf_taken *taken, uint32_t number) {
        const unsigned char *type = view->types + view->at[number];
        uint32_t info = word_at(type + 4), kind = info >> 24 & 0x1F, count = info & 0xFFFF, size = word_at(type + 8);
        long more = btf_more(kind, count);
        if (kind == KIND_PTR || kind == KIND_FUNC_PROTO) { /* to what does not matter */
            put_word(out, 0);
            put_word(out, (uint32_t)KIND_PTR << 24);
            put_word(out, 0);
            return;
        }
        put_name(out, view, word_at(type));
        put_word(out, info);
        put_word(out, is_modifier(kind) ? taken->number[size] : size);
        type += BTF_TYPE;
        if (has_parts(kind))
            for (uint32_t i = 0; i < count; i++, type += 12) {
                put_name(out, view, word_at(type));
                put_word(out, taken->number[word_at(type + 4)]);
                put_word(out, word_at(type + 8));
            }
        else if (kind == KIND_ARRAY) {
            put_word(out, taken->number[word_at(type)]);
            put_word(out, taken->number[word_at(type + 4)]);
            put_word(out, word_at(type + 8));
        } else if (kind == KIND_ENUM || kind == KIND_ENUM64)
            for (uint32_t i = 0, words = kind == KIND_ENUM ? 1 : 2; i < count; i++, type += 4 + 4 * words) {
                put_name(out, view, word_at(type));
                for (uint32_t j = 0; j < words; j++)
                    put_word(out, word_at(type + 4 + 4 * j));
            }
        else
            for (long i = 0; i < more; i += 4)
                put_word(out, word_at(type + i));
    }
    """
    struct btf_head:
        uint16_t magic
        unsigned char version
        uint32_t hdr_len, type_off, type_len, str_off, str_len
    enum:
        BTF_HEAD
        BTF_TYPE
        SLOTS
    struct btf_view:
        const unsigned char *types
        const unsigned char *strings
        size_t types_size, strings_size
        uint32_t n
        uint32_t *at
    struct btf_taken:
        uint32_t *number
        uint32_t *order
        uint32_t n
    struct btf_output:
        unsigned char *types
        unsigned char *strings
        size_t types_size, strings_size
    void *calloc(size_t, size_t) nogil
    void free(void *) nogil
    uint32_t word_at(const unsigned char *) nogil
    size_t name_length(const btf_view *, uint32_t, size_t *) nogil
    bint is_looked_for(uint32_t) nogil
    long view_types(btf_view *) nogil
    void remember(const btf_view *, uint32_t *, uint32_t) nogil
    bint is_remembered(const btf_view *, const uint32_t *, const unsigned char *, size_t) nogil
    int take(const btf_view *, btf_taken *, uint32_t) nogil
    int take_parts(const btf_view *, btf_taken *, uint32_t) nogil
    void put_type(btf_output *, const btf_view *, const btf_taken *, uint32_t) nogil


cdef int look(const unsigned char *data, size_t length, btf_view *view) except -1:
    """Fill a view, of which `free` takes ``at`` back, also after an error."""
    cdef const btf_head *head = <const btf_head *>data
    cdef long failed
    if length < BTF_HEAD or head.magic != 0xEB9F:
        raise ValueError("this is no BTF")
    if (<size_t>head.hdr_len + head.type_off + head.type_len > length
            or <size_t>head.hdr_len + head.str_off + head.str_len > length):
        raise ValueError("the BTF ends early")
    view.types = data + head.hdr_len + head.type_off
    view.strings = data + head.hdr_len + head.str_off
    view.types_size, view.strings_size = head.type_len, head.str_len
    view.at = <uint32_t *>calloc(head.type_len // BTF_TYPE + 2, sizeof(uint32_t))
    if view.at == NULL:
        raise MemoryError
    failed = view_types(view)
    if failed == -1000:
        raise ValueError("the BTF ends early")
    if failed:
        raise ValueError(f"BTF of kind {-1 - failed}")
    return 0


def find(const unsigned char[::1] types, int kind, bytes prefix):
    """Return the numbers of the types of a kind (BTF_KIND_...) whose names begin so, by the rest of the name.

    Raises ValueError where these bytes are no type information, or end early, or have a kind that is not known.
    """
    cdef btf_view view
    cdef size_t size = len(prefix)
    cdef const char *wanted = prefix
    cdef const unsigned char *type
    cdef const unsigned char *name
    cdef const unsigned char *stop
    cdef uint32_t number
    view.at = NULL
    try:
        look(&types[0] if len(types) else NULL, len(types), &view)
        found = {}
        for number in range(1, view.n + 1):
            type = view.types + view.at[number]
            if <int>(word_at(type + 4) >> 24 & 0x1F) == kind and word_at(type) + size < view.strings_size:
                name = view.strings + word_at(type)
                if not memcmp(name, wanted, size):
                    stop = <const unsigned char *>memchr(name, 0, view.strings_size - word_at(type))
                    if stop != NULL:
                        found[name[size : stop - name].decode("ascii", "replace")] = number
        return found
    finally:
        free(view.at)


def reduced(const unsigned char[::1] types, bytes wanted):
    """Return type information with only the types whose names another one has too, and what is in these.

    What they point to is left out. libbpf relocates programs by it as by all of the kernel's, of which it looks at
    every type for every name. ``wanted``: the type information of the programs; what follows it does not matter.

    Raises ValueError as `find` does.
    """
    cdef btf_view kernel, programs
    cdef btf_taken taken
    cdef btf_output out
    cdef uint32_t number, info, slots[8192]
    cdef const unsigned char *type
    cdef unsigned char *target
    cdef size_t length, whole
    cdef btf_head *head
    cdef bytes made
    cdef int bad = 0
    kernel.at = programs.at = taken.number = taken.order = NULL
    taken.n = 0
    for number in range(SLOTS):
        slots[number] = 0
    try:
        look(wanted, len(wanted), &programs)
        look(&types[0] if len(types) else NULL, len(types), &kernel)
        taken.number = <uint32_t *>calloc(kernel.n + 1, sizeof(uint32_t))
        taken.order = <uint32_t *>calloc(kernel.n + 1, sizeof(uint32_t))
        if taken.number == NULL or taken.order == NULL:
            raise MemoryError
        with nogil:
            for number in range(1, programs.n + 1):
                if is_looked_for(word_at(programs.types + programs.at[number] + 4) >> 24 & 0x1F):
                    remember(&programs, slots, number)
            for number in range(1, kernel.n + 1):
                type = kernel.types + kernel.at[number]
                if is_looked_for(word_at(type + 4) >> 24 & 0x1F):
                    length = name_length(&kernel, word_at(type), &whole)
                    if length and is_remembered(&programs, slots, kernel.strings + word_at(type), length):
                        bad |= take(&kernel, &taken, number)
            number = 0
            while number < taken.n:
                bad |= take_parts(&kernel, &taken, taken.order[number])
                number += 1
        if bad:
            raise ValueError("the BTF has types that it does not have")
        out.types = out.strings = NULL
        out.types_size, out.strings_size = 0, 1
        for number in range(taken.n):
            put_type(&out, &kernel, &taken, taken.order[number])
        made = PyBytes_FromStringAndSize(NULL, BTF_HEAD + out.types_size + out.strings_size)
        target = made
        memset(target, 0, BTF_HEAD + out.types_size + 1)
        head = <btf_head *>target
        head.magic, head.version, head.hdr_len = 0xEB9F, 1, BTF_HEAD
        head.type_len = head.str_off = <uint32_t>out.types_size
        head.str_len = <uint32_t>out.strings_size
        out.types, out.strings = target + BTF_HEAD, target + BTF_HEAD + out.types_size
        out.types_size, out.strings_size = 0, 1
        for number in range(taken.n):
            put_type(&out, &kernel, &taken, taken.order[number])
        return made
    finally:
        free(kernel.at)
        free(programs.at)
        free(taken.number)
        free(taken.order)
