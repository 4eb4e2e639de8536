/* Reset of a hart, and the entry to the kernel and the exit from it.
 *
 * mscratch holds the thread that the hart runs, whose first 128 bytes are its registers. The exit restores everything
 * first and clears the interrupt latch last. The only kernel instruction after that is MRET. `calibrate` measures what
 * MRET costs the thread, and hwcorr takes it out again. Both instructions are in one 8-byte piece of code, so that no
 * cache line is missed between them.
 *
 * The entry reads the time first, and the exit last, because the scheduler wants to know how long the kernel took. */

#include "calls.h"
#include "machine.h"
#include "layout.h"

    .section .text.reset, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, boot_stacks + BOOT_STACK
    li t0, BOOT_STACK
    mul t0, t0, a0
    add sp, sp, t0
    call boot
    j .

    .text
    .balign 64
    .globl trap_entry
trap_entry:
    csrrw sp, mscratch, sp
    sw x5, 20(sp)
    csrr t0, time
    sw t0, THREAD_ENTERED(sp)
    sw x1, 4(sp)
    sw x3, 12(sp)
    sw x4, 16(sp)
    sw x6, 24(sp)
    sw x7, 28(sp)
    sw x8, 32(sp)
    sw x9, 36(sp)
    sw x10, 40(sp)
    sw x11, 44(sp)
    sw x12, 48(sp)
    sw x13, 52(sp)
    sw x14, 56(sp)
    sw x15, 60(sp)
    sw x16, 64(sp)
    sw x17, 68(sp)
    sw x18, 72(sp)
    sw x19, 76(sp)
    sw x20, 80(sp)
    sw x21, 84(sp)
    sw x22, 88(sp)
    sw x23, 92(sp)
    sw x24, 96(sp)
    sw x25, 100(sp)
    sw x26, 104(sp)
    sw x27, 108(sp)
    sw x28, 112(sp)
    sw x29, 116(sp)
    sw x30, 120(sp)
    sw x31, 124(sp)
    csrr t0, mscratch
    csrr t1, mepc
    csrr a1, mcause
    sw t0, 8(sp)
    sw t1, 0(sp)
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    mv a0, sp
    lw sp, THREAD_KERNEL_STACK(sp)
    call trap

    csrw mscratch, a0
    lw t0, 0(a0)
    lw t1, THREAD_MSTATUS(a0)
    csrw mepc, t0
    csrw mstatus, t1
    mv sp, a0
    lw x1, 4(sp)
    lw x3, 12(sp)
    lw x4, 16(sp)
    lw x6, 24(sp)
    lw x7, 28(sp)
    lw x8, 32(sp)
    lw x9, 36(sp)
    lw x10, 40(sp)
    lw x11, 44(sp)
    lw x12, 48(sp)
    lw x13, 52(sp)
    lw x14, 56(sp)
    lw x15, 60(sp)
    lw x16, 64(sp)
    lw x17, 68(sp)
    lw x18, 72(sp)
    lw x19, 76(sp)
    lw x20, 80(sp)
    lw x21, 84(sp)
    lw x22, 88(sp)
    lw x23, 92(sp)
    lw x24, 96(sp)
    lw x25, 100(sp)
    lw x26, 104(sp)
    lw x27, 108(sp)
    lw x28, 112(sp)
    lw x29, 116(sp)
    lw x30, 120(sp)
    lw x31, 124(sp)
    csrr t0, time
    sw t0, THREAD_LEFT(sp)
    lw x5, 20(sp)
    lw sp, 8(sp)
    .balign 8
    .option push
    .option norvc
    csrci CSR_HWLATCH, LATCH_INTERRUPT
    mret
    .option pop

/* uint32_t calibrate(void): return what a trap that does nothing adds to EPC, beyond the cycles of its ECALL (for which
 * a NOP stands in), with no correction in force. */
    .globl calibrate
calibrate:
    csrw CSR_HWCORR, zero
    li a7, CALL_NULL
    csrr t0, CSR_COUNTER + COUNTER_EPC
    .option push
    .option norvc
    nop
    .option pop
    csrr t1, CSR_COUNTER + COUNTER_EPC
    ecall
    csrr t2, CSR_COUNTER + COUNTER_EPC
    sub t2, t2, t1
    sub t1, t1, t0
    sub a0, t2, t1
    ret

/* Ask for a thread to run on a booted hart. This does not return: the hart's registers become those of `idle`. */
    .globl start
start:
    li a7, CALL_START
    ecall

    .globl idle
    .balign 16
idle:
    wfi
    j idle

/* Begin a thread: a0 = body, a1 = argument. */
    .globl thread_begin
thread_begin:
    mv t0, a0
    mv a0, a1
    jalr t0
    li a7, CALL_EXIT
    ecall

/* The names of these numbers in the machine's tables. */
    .macro name symbol
    .globl \symbol
    .equ \symbol, 0
    .endm
    name headway_call_0_null
    name headway_call_1_exit
    name headway_call_2_yield
    name headway_call_3_spawn
    name headway_call_4_join
    name headway_call_5_sleep
    name headway_call_6_lock
    name headway_call_7_unlock
    name headway_call_8_wait
    name headway_call_9_signal
    name headway_call_10_send
    name headway_call_11_receive
    name headway_call_12_write
    name headway_call_13_read
    name headway_call_14_block_read
    name headway_call_15_block_write
    name headway_call_16_block_of
    name headway_call_30_start
    name headway_tag_1_malloc
    name headway_tag_31_idle

    .section .tohost, "aw", @progbits
    .balign 64
    .globl tohost, fromhost
tohost:
    .dword 0
fromhost:
    .dword 0
