/* Reset of a program without a kernel. Each hart gets a stack; hart 0 runs the program, and the others wait for it.
 * A trap that the program has not asked for ends the run with exit status 100. */

#include "machine.h"

#define BARE_STACK 2048

    .section .text.reset, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la t0, unexpected
    csrw mtvec, t0
    la sp, bare_stacks + BARE_STACK
    li t0, BARE_STACK
    mul t0, t0, a0
    add sp, sp, t0
    bnez a0, 1f
    call bare_run
1:  call bare_other

    .balign 4
unexpected:
    la t0, tohost
    li t1, 100 << 1 | 1
    sw t1, 0(t0)
    j .

    .section .tohost, "aw", @progbits
    .balign 64
    .globl tohost, fromhost
tohost:
    .dword 0
fromhost:
    .dword 0

    .bss
    .balign 16
bare_stacks:
    .space BARE_STACK * HARTS_MAX
