/* Static probes (USDT) as sys/sdt.h writes them: a no-op, and a note that tells where it is. Source: SystemTap wiki,
 * "UserSpaceProbeImplementation". */
#ifndef PROBES_H
#define PROBES_H

#define PROBE_NOTE(provider, name, semaphore, arguments)                                                                  \
    "990: nop\n"                                                                                                          \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                                                                        \
    ".balign 4\n"                                                                                                         \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                                                    \
    "991: .asciz \"stapsdt\"\n"                                                                                           \
    "992: .balign 4\n"                                                                                                    \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                                                   \
    ".asciz \"" provider "\"\n"                                                                                           \
    ".asciz \"" name "\"\n"                                                                                               \
    ".asciz \"" arguments "\"\n"                                                                                          \
    "994: .balign 4\n"                                                                                                    \
    ".popsection\n"                                                                                                       \
    ".ifndef _.stapsdt.base\n"                                                                                            \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                                           \
    ".weak _.stapsdt.base\n"                                                                                              \
    ".hidden _.stapsdt.base\n"                                                                                            \
    "_.stapsdt.base: .space 1\n"                                                                                          \
    ".size _.stapsdt.base, 1\n"                                                                                           \
    ".popsection\n"                                                                                                       \
    ".endif\n"

/* A probe with no argument, and one with two of 8 bytes, wherever the compiler has them. */
#define PROBE(provider, name) __asm__ volatile(PROBE_NOTE(provider, name, "0", ""))
#define PROBE2(provider, name, semaphore, first, second)                                                                  \
    __asm__ volatile(PROBE_NOTE(provider, name, semaphore, "8@%0 8@%1") ::"nor"(first), "nor"(second))
/* The 16 bits that whoever probes counts up. */
#define SEMAPHORE(name) unsigned short name __attribute__((section(".probes"), used, visibility("hidden")))

#endif
