/* Reset on the barrel core, on which all harts start here. Each gets a stack. */
#include "machine.h"
#define STACK 1024
#define HARTS 8

    .section .text.reset, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la t0, unexpected
    csrw mtvec, t0
    csrr a0, mhartid
    la sp, stacks + STACK
    slli t0, a0, 10
    add sp, sp, t0
    bnez a0, 1f
    call first
1:  call other

    .balign 4
unexpected:
    lui t0, %hi(tohost)
    li t1, 100 << 1 | 1
    sw t1, %lo(tohost)(t0)
    j .

    .bss
    .balign 16
stacks:
    .space STACK * HARTS
