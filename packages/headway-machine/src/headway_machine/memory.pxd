"""The cost of an access to RAM: micro-TLB, caches, and the bus (docs/machine.md, section 2, "Memory").

Only time is modelled here. The data itself is in one place, so a cache keeps no data and cannot hold stale data. A hart
that misses is blocked, and tries its instruction again when the line or page that it asked for has come. That line or
page then counts as present, even if it has been displaced in the meantime, so that two harts cannot starve each other.
Harts of a core that miss the same line wait for the same request.

Caches and micro-TLB are LRU, the micro-TLB fully associative: an access to the page of the access before is no use of
it. A missing line is placed in one of the ways of the hart that asked for it first: an empty one, else that of the line
used longest ago. Windows of the bus count from tick 0. A fetch looks the instruction cache up for each line entered in
sequence, and after each jump to another line. Without allocation (``l1d.write = "through"``) an AMO brings its line.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from .architecture cimport *
from .clocks cimport cycle_of
from .structures cimport HINTS, TLB_HINTS, Cache, Core, Hart, Machine, Request

cdef enum:  # Kind
    READ = 0
    FETCH = 1
    UPGRADE = 2
    WRITE_WORD = 3

cdef enum:  # Attention
    # Its instruction has waited for memory.
    WAITED = 256
    # The data cache has banks, so that no turn is a usual one.
    BANKED = 4096


cdef inline int32_t place_of(Cache* cache, uint32_t line) noexcept nogil:
    """Return the place of a line in the cache; -1 if the line is not in the cache."""
    cdef uint32_t* hint = &cache.hints[line & (HINTS - 1)]
    cdef uint32_t first, i
    if cache.tags[hint[0]] == line + 1:
        return <int32_t>hint[0]
    first = (line & (cache.sets - 1)) * cache.ways
    for i in range(first, first + cache.ways):
        if cache.tags[i] == line + 1:
            hint[0] = i
            return <int32_t>i
    return -1


cdef inline void use_line(Cache* cache, int32_t place) noexcept nogil:
    """Mark the line at a place as the one that was used last."""
    cache.uses += 1
    cache.used[place] = cache.uses


cdef inline int32_t find_line(Cache* cache, uint32_t line) noexcept nogil:
    """Return the place of a line in the cache and mark it as used; -1 if the line is not in the cache."""
    cdef int32_t place = place_of(cache, line)
    if place >= 0:
        use_line(cache, place)
    return place


cdef inline int32_t make_room(Cache* cache, uint32_t line, uint32_t ways) noexcept nogil:
    """Return the place for a new line in one of these ways: an empty one, or the one that was used least recently."""
    cdef uint32_t first = (line & (cache.sets - 1)) * cache.ways, way, i
    cdef int32_t oldest = -1
    for way in range(cache.ways):
        if not ways >> way & 1:
            continue
        i = first + way
        if not cache.tags[i]:
            return <int32_t>i
        if oldest < 0 or cache.used[i] < cache.used[oldest]:
            oldest = <int32_t>i
    return oldest


cdef inline void empty(Cache* cache) noexcept nogil:
    memset(cache.tags, 0, cache.sets * cache.ways * sizeof(uint32_t))
    memset(cache.dirty, 0, cache.sets * cache.ways)


cdef inline uint32_t ram_line(Cache* cache, uint32_t line) noexcept nogil:
    """Return the number of the line, counted from the beginning of RAM."""
    return line - (RAM >> cache.shift)


cdef inline void empty_caches(Machine* m, Core* c) noexcept nogil:
    """Empty the caches of a core that enters C3."""
    cdef uint32_t i
    cdef int number = c.harts[0].core
    empty(&c.icache)
    if m.sharers != NULL:
        for i in range(c.dcache.sets * c.dcache.ways):
            if c.dcache.tags[i]:
                m.sharers[ram_line(&c.dcache, c.dcache.tags[i] - 1)] &= <uint16_t>~(1u << number)
    empty(&c.dcache)
    for i in range(<uint32_t>c.threads):
        c.harts[i].fetched = 0


cdef inline bint has_page(Machine* m, Hart* h, uint32_t address, uint32_t* last) noexcept nogil:
    """Return whether the micro-TLB has the page of the address, and mark it as used."""
    cdef uint32_t page = (address >> m.tlb_shift) + 1
    cdef uint16_t* hint
    cdef int32_t i
    if page == last[0] or not m.tlb_entries or not m.tlb_miss:
        return True
    hint = &h.tlb_hints[page & (TLB_HINTS - 1)]
    i = hint[0]
    if h.tlb[i] != page:
        i = 0
        while i < m.tlb_entries and h.tlb[i] != page:
            i += 1
        if i == m.tlb_entries:
            return False
        hint[0] = <uint16_t>i
    h.tlb_uses += 1
    h.tlb_used[i] = h.tlb_uses
    last[0] = page
    return True


cdef inline bint translate(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t* last) noexcept nogil:
    """Return whether the micro-TLB has the page. If not, it has the page when the hart tries again.

    A page that the instruction has waited for counts as present, even if another of its pages has displaced it.
    """
    cdef uint32_t page = (address >> m.tlb_shift) + 1
    cdef int32_t i, oldest = 0
    if has_page(m, h, address, last):
        return True
    for i in range(4):
        if h.translated[i] == page:
            return True
    for i in range(1, m.tlb_entries):
        if h.tlb_used[i] < h.tlb_used[oldest]:
            oldest = i
    if h.tlb[oldest] == h.fetch_page:
        h.fetch_page = 0
    if h.tlb[oldest] == h.data_page:
        h.data_page = 0
    h.tlb_uses += 1
    h.tlb[oldest] = page
    h.tlb_used[oldest] = h.tlb_uses
    last[0] = page
    for i in range(3, 0, -1):
        h.translated[i] = h.translated[i - 1]
    h.translated[0] = page
    h.attention |= WAITED
    wait_until(c, h, m.now + m.tlb_miss, TLB_MISS)
    return False


cdef inline void forget_served(Hart* h) noexcept nogil:
    """Forget what the waiting instruction was served, because it has been issued or never will be."""
    memset(h.served, 0, sizeof(h.served))
    memset(h.translated, 0, sizeof(h.translated))
    h.served_fetch = 0
    h.attention &= ~<uint32_t>WAITED


cdef inline void wait_until(Core* c, Hart* h, int64_t tick, int reason) noexcept nogil:
    h.reason = reason
    h.arrival = tick
    h.ready = cycle_of(c, tick)


cdef inline void ask(Machine* m, Core* c, Hart* h, uint32_t line, int kind, bint displaces) noexcept nogil:
    """Queue a request for the bus. The arbiter sees it in the next tick."""
    cdef Request* request = &c.queue[(c.head + c.queued) % (3 * MAX_THREADS)]
    c.queued += 1
    request.line = line
    request.kind = <uint8_t>kind
    request.hart = <uint8_t>h.slot
    request.displaces = displaces
    m.bus_next = min(m.bus_next, max(m.bus_free, m.now + 1))


cdef inline void block_on(Hart* h, uint32_t line, int kind, int reason) noexcept nogil:
    """Block the hart until the bus has served a request for the line, made by this hart or another."""
    h.wanted = line + 1
    h.wanted_kind = kind
    h.reason = reason
    h.arrival = 0
    h.ready = NEVER


cdef inline void miss(Machine* m, Core* c, Hart* h, Cache* cache, uint32_t line, int kind, int reason) noexcept nogil:
    """Make room for the line, request it, and block the hart."""
    cdef int32_t place = make_room(cache, line, h.ways[IN_L1I if kind == FETCH else IN_L1D])
    cdef bint displaces = cache.dirty[place]
    if kind == READ and m.sharers != NULL:
        if cache.tags[place]:
            m.sharers[ram_line(cache, cache.tags[place] - 1)] &= <uint16_t>~(1u << h.core)
        m.sharers[ram_line(cache, line)] |= <uint16_t>(1u << h.core)
    cache.tags[place] = line + 1
    cache.dirty[place] = 0
    cache.filled[place] = NEVER
    use_line(cache, place)
    ask(m, c, h, line, kind, displaces)
    block_on(h, line, kind, reason)


cdef inline bint wait_for_line(
    Core* c, Hart* h, Cache* cache, int32_t place, uint32_t line, int kind, int reason
) noexcept nogil:
    """Wait for a line that is already on its way for another hart of the core."""
    if cache.filled[place] == NEVER:
        block_on(h, line, kind, reason)
    else:
        wait_until(c, h, cache.filled[place], reason + cache.external[place])
    return False


cdef inline void serve_fetch(Hart* h, uint32_t line) noexcept nogil:
    """Note the line as served to the instruction that is fetched."""
    h.served_fetch = line + 1
    h.attention |= WAITED


cdef inline bint can_fetch(Machine* m, Core* c, Hart* h, uint32_t address) noexcept nogil:
    """Return whether the instruction line at the address, in RAM, is present; if not, the hart waits."""
    cdef uint32_t line = address >> c.icache.shift
    cdef int32_t place
    if not translate(m, c, h, address, &h.fetch_page):
        return False
    if h.served_fetch == line + 1:
        return True
    place = find_line(&c.icache, line)
    if place >= 0:
        if c.icache.filled[place] <= m.now:
            return True
        serve_fetch(h, line)
        return wait_for_line(c, h, &c.icache, place, line, FETCH, FETCH_INTERNAL)
    serve_fetch(h, line)
    miss(m, c, h, &c.icache, line, FETCH, FETCH_INTERNAL)
    return False


cdef inline void serve(Hart* h, uint32_t line) noexcept nogil:
    """Note the line as served to the waiting instruction, which needs two lines at most."""
    h.served[1] = h.served[0]
    h.served[0] = line + 1
    h.attention |= WAITED


cdef inline bint has_line(Machine* m, Core* c, Hart* h, uint32_t line, bint store) noexcept nogil:
    """Return whether the data cache can serve an access to the line now; if not, the hart waits."""
    cdef int32_t place
    cdef int reason = STORE_INTERNAL if store else LOAD_INTERNAL
    place = find_line(&c.dcache, line)
    if h.served[0] == line + 1 or h.served[1] == line + 1:
        if store and place >= 0:
            c.dcache.dirty[place] = <uint8_t>m.write_back
        return True
    if unlikely(place < 0):
        if store and not m.write_back:
            return True
        serve(h, line)
        miss(m, c, h, &c.dcache, line, READ, reason)
        return False
    if c.dcache.filled[place] > m.now:
        serve(h, line)
        return wait_for_line(c, h, &c.dcache, place, line, READ, reason)
    if store and m.write_back:
        if m.sharers != NULL and m.sharers[ram_line(&c.dcache, line)] & ~(1u << h.core):
            serve(h, line)
            ask(m, c, h, line, UPGRADE, False)
            block_on(h, line, UPGRADE, STORE_INTERNAL)
            return False
        c.dcache.dirty[place] = 1
    return True


cdef inline bint can_access(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size, bint store) noexcept nogil:
    """Return whether an access to RAM can be done now; if not, the hart waits and tries again."""
    cdef uint32_t line = address >> c.dcache.shift, last = (address + size - 1) >> c.dcache.shift
    if not translate(m, c, h, address, &h.data_page):
        return False
    if not has_line(m, c, h, line, store):
        return False
    if last != line:
        if not translate(m, c, h, address + size - 1, &h.data_page):
            return False
        if not has_line(m, c, h, last, store):
            return False
    if store and not m.write_back:
        if h.buffer or h.buffer_free > m.now:
            h.attention |= WAITED
            h.reason = STORE_EXTERNAL
            h.arrival = 0 if h.buffer else h.buffer_free
            h.ready = NEVER if h.buffer else cycle_of(c, h.buffer_free)
            h.wanted = 0
            return False
        h.buffer = 1
        ask(m, c, h, line, WRITE_WORD, False)
    return True


cdef inline void take_from_others(Machine* m, Hart* h, uint32_t line) noexcept nogil:
    """Remove a line that is stored to from the data caches of the other cores."""
    cdef uint32_t others = m.sharers[ram_line(&m.cores[0].dcache, line)] & ~(1u << h.core)
    cdef int32_t place
    cdef int k
    for k in range(m.cores_count):
        if others >> k & 1:
            place = find_line(&m.cores[k].dcache, line)
            if place >= 0:
                m.cores[k].dcache.tags[place] = 0
                m.cores[k].dcache.dirty[place] = 0
    m.sharers[ram_line(&m.cores[0].dcache, line)] &= <uint16_t>(1u << h.core)


cdef inline void end_reservations(Machine* m, Hart* h, uint32_t line) noexcept nogil:
    """End the reservations that other harts have on a line that this hart stores to.

    Each core has a tightly coupled memory of its own, so a store to it concerns only the harts of the core.
    """
    cdef bint everywhere = line >= RAM >> m.cores[0].dcache.shift
    cdef int i
    for i in range(m.harts_count):
        if m.harts[i].reserved == line + 1 and &m.harts[i] != h and (everywhere or m.harts[i].core == h.core):
            m.harts[i].reserved = 0
            m.reservations -= 1


cdef inline void stored(Machine* m, Core* c, Hart* h, uint32_t address, uint32_t size) noexcept nogil:
    """Apply the effects of a store to RAM on other harts and cores."""
    cdef uint32_t line = address >> c.dcache.shift, last = (address + size - 1) >> c.dcache.shift
    if m.reservations:
        end_reservations(m, h, line)
        if last != line:
            end_reservations(m, h, last)
    if m.sharers != NULL:
        if m.sharers[ram_line(&c.dcache, line)] & ~(1u << h.core):
            take_from_others(m, h, line)
        if last != line and m.sharers[ram_line(&c.dcache, last)] & ~(1u << h.core):
            take_from_others(m, h, last)


cdef inline bint second_level(Machine* m, uint32_t line, uint32_t ways) noexcept nogil:
    """Return whether the second level has the line; if not, it has the line from now on, in one of these ways."""
    cdef int32_t place
    if find_line(&m.l2, line) >= 0:
        return True
    place = make_room(&m.l2, line, ways)
    m.l2.tags[place] = line + 1
    use_line(&m.l2, place)
    return False


cdef inline void arrive(Machine* m, Core* c, uint32_t line, int kind, int64_t tick, bint external) noexcept nogil:
    """Tell every hart of the core that waits for the line when it arrives."""
    cdef int i
    cdef Hart* h
    for i in range(c.threads):
        h = &c.harts[i]
        if h.ready == NEVER and h.wanted == line + 1 and h.wanted_kind == <uint32_t>kind:
            h.wanted = 0
            h.reason += external
            h.arrival = tick
            h.ready = cycle_of(c, tick)


cdef inline bint may_use_bus(Machine* m, Hart* h) noexcept nogil:
    """Return whether the hart has not used up its share of the bus in the current window."""
    if h.bus_window != m.now // m.bus_window:
        h.bus_window = m.now // m.bus_window
        h.bus_used = 0
    return not h.share or 16 * h.bus_used < h.share * m.bus_window


cdef inline bint has_request(Machine* m, Core* c) noexcept nogil:
    """Return whether a request of the core can be served now, after moving the first such request to the head.

    A hart's own requests stay in order. They all wait while its share of the bus is used up.
    """
    cdef Request request
    cdef int n, i, at
    if not m.bus_shares or not c.queued:
        return c.queued > 0
    for n in range(c.queued):
        at = (c.head + n) % (3 * MAX_THREADS)
        if may_use_bus(m, &c.harts[c.queue[at].hart]):
            request = c.queue[at]
            for i in range(n, 0, -1):
                c.queue[(c.head + i) % (3 * MAX_THREADS)] = c.queue[(c.head + i - 1) % (3 * MAX_THREADS)]
            c.queue[c.head] = request
            return True
    return False


cdef inline int64_t next_grant(Machine* m, int64_t soonest) noexcept nogil:
    """Return ``soonest`` if any request waits, else NEVER."""
    cdef int i
    for i in range(m.cores_count):
        if m.cores[i].queued:
            return soonest
    return NEVER


cdef inline Core* grant(Machine* m) noexcept nogil:
    """Give the free bus to the next core in turn, at tick `now`. Return that core; NULL if none can be served now."""
    cdef Core* c = NULL
    cdef Hart* h
    cdef Request* request
    cdef Cache* cache
    cdef int64_t done
    cdef bint external = False
    cdef int32_t place
    cdef int i
    for i in range(1, m.cores_count + 1):
        if has_request(m, &m.cores[(m.bus_last + i) % m.cores_count]):
            m.bus_last = (m.bus_last + i) % m.cores_count
            c = &m.cores[m.bus_last]
            break
    if c == NULL:
        # Every request is of a hart that has used up its share, so all wait for the next window.
        m.bus_next = next_grant(m, (m.now // m.bus_window + 1) * m.bus_window)
        return NULL
    request = &c.queue[c.head]
    c.head = (c.head + 1) % (3 * MAX_THREADS)
    c.queued -= 1
    h = &c.harts[request.hart]
    if request.kind == WRITE_WORD or request.kind == UPGRADE:
        m.bus_free = m.now + m.bus_word
        if request.kind == UPGRADE:
            arrive(m, c, request.line, UPGRADE, m.bus_free, False)
        else:
            h.buffer = 0
            h.buffer_free = m.bus_free
            if h.ready == NEVER and h.reason == STORE_EXTERNAL and not h.wanted:
                h.arrival = m.bus_free
                h.ready = cycle_of(c, m.bus_free)
    else:
        cache = &c.icache if request.kind == FETCH else &c.dcache
        m.bus_free = m.now + m.bus_line
        done = m.bus_free
        if request.displaces:
            m.bus_free += m.bus_line
        if m.has_l2 and second_level(m, request.line >> (m.l2.shift - cache.shift), h.ways[IN_L2]):
            done += m.l2_hit
        else:
            external = True
            done += m.latency
        place = find_line(cache, request.line)
        if place >= 0:
            cache.filled[place] = done
            cache.external[place] = external
        arrive(m, c, request.line, request.kind, done, external)
    h.bus_used += m.bus_free - m.now
    m.bus_next = next_grant(m, max(m.bus_free, m.now + 1))
    return c
