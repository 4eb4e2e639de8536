/* Traps: interrupts, system calls, and the end of a program that did something forbidden. */

#include "kernel.h"

#define CAUSE_INTERRUPT 0x80000000u
#define CAUSE_SOFTWARE (CAUSE_INTERRUPT | 3)
#define CAUSE_TIMER (CAUSE_INTERRUPT | 7)
#define CAUSE_EXTERNAL (CAUSE_INTERRUPT | 11)
#define CAUSE_USER_CALL 8
#define CAUSE_MACHINE_CALL 11

static void call(struct thread *self)
{
    uint32_t *x = self->x;
    struct thread *other;
    x[0] += 4;
    switch (x[A7]) {
    case CALL_NULL:
        break;
    case CALL_EXIT:
        end(self, x[A0]);
        break;
    case CALL_YIELD:
        self->hart->turn = true;
        break;
    case CALL_SPAWN:
        other = spawn((const struct hw_start *) x[A0]);
        x[A0] = other ? other->block.id : 0;
        break;
    case CALL_JOIN:
        join(self, x[A0]);
        break;
    case CALL_SLEEP:
        if (((uint64_t) x[A1] << 32 | x[A0]) > now())
            sleep(self, (uint64_t) x[A1] << 32 | x[A0]);
        break;
    case CALL_LOCK:
        mutex_lock(self, (struct hw_mutex *) x[A0]);
        break;
    case CALL_UNLOCK:
        mutex_unlock(self, (struct hw_mutex *) x[A0]);
        break;
    case CALL_WAIT:
        condition_wait(self, (struct hw_condition *) x[A0], (struct hw_mutex *) x[A1]);
        break;
    case CALL_SIGNAL:
        condition_signal(self, (struct hw_condition *) x[A0], x[A1]);
        break;
    case CALL_SEND:
        queue_send(self, (struct hw_queue *) x[A0], x[A1]);
        break;
    case CALL_RECEIVE:
        queue_receive(self, (struct hw_queue *) x[A0]);
        break;
    case CALL_WRITE:
        uart_write(self, (uint8_t *) x[A0], x[A1]);
        break;
    case CALL_READ:
        uart_read(self, (uint8_t *) x[A0], x[A1]);
        break;
    case CALL_BLOCK_READ:
        block_transfer(self, BLOCK_READ, x[A0], (uint8_t *) x[A1], x[A2]);
        break;
    case CALL_BLOCK_WRITE:
        block_transfer(self, BLOCK_WRITE, x[A0], (uint8_t *) x[A1], x[A2]);
        break;
    case CALL_BLOCK_OF:
        other = thread_of(x[A0]);
        x[A0] = other ? (uint32_t) &other->block : 0;
        break;
    default:
        panic("made a system call that does not exist", self);
    }
}

struct thread *trap(struct thread *self, uint32_t cause)
{
    struct hart *hart = self->hart;
    if (hart->began)
        note_cost(hart, self);
    lock();
    switch (cause) {
    case CAUSE_SOFTWARE:
        clear_interrupt(hart);
        break;
    case CAUSE_TIMER:
        wake_sleepers();
        if (self != &hart->idle && now() >= hart->slice)
            hart->turn = true;
        break;
    case CAUSE_EXTERNAL:
        external_interrupt();
        break;
    case CAUSE_USER_CALL:
        call(self);
        break;
    case CAUSE_MACHINE_CALL:
        if (self->x[A7] == CALL_NULL) { /* calibrate */
            self->x[0] += 4;
            unlock();
            return self;
        }
        if (self->x[A7] != CALL_START)
            panic("kernel made a system call", self);
        CSR_WRITE(CSR_HWBLOCK, 0); /* end the thread that the hart was before it ran threads */
        CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_KPSW | TAG_IDLE << 8);
        break;
    case 0:
    case 1:
        panic("jumped to where no code can be", self);
    case 2:
        panic("illegal instruction", self);
    case 3:
        panic("breakpoint", self);
    default:
        panic("touched memory that it may not", self);
    }
    struct thread *next = choose(hart, self);
    unlock();
    return next;
}
