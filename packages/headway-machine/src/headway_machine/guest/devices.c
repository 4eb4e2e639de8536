/* The drivers that use interrupts. All device interrupts go to hart 0.
 *
 * A thread that polls a device does so itself, in user mode (headway_guest.h). The kernel therefore takes bytes from the
 * UART only after a thread has asked for them. */

#include "kernel.h"

static struct hw_waiters writers, readers, transfers;
static uint8_t received[256];
static uint32_t received_head, received_count;
static bool transferring;
static uint32_t interrupts; /* the UART's interrupts that are enabled */

static void uart_interrupts(uint32_t wanted)
{
    if (wanted != interrupts)
        REGISTER(UART_IE) = interrupts = wanted;
}

void devices_prepare(void)
{
    REGISTER(PLIC_PRIORITY + 4 * PLIC_UART_RECEIVED) = 1;
    REGISTER(PLIC_PRIORITY + 4 * PLIC_UART_CAN_SEND) = 1;
    REGISTER(PLIC_PRIORITY + 4 * PLIC_BLOCK) = 1;
    REGISTER(PLIC_THRESHOLD) = 0;
    REGISTER(PLIC_ENABLE) = 1 << PLIC_UART_RECEIVED | 1 << PLIC_UART_CAN_SEND | 1 << PLIC_BLOCK;
}

static void send(void)
{
    while (writers.first) {
        struct thread *writer = writers.first;
        while (writer->length && REGISTER(UART_TXSTATUS)) {
            REGISTER(UART_TXDATA) = *writer->bytes++;
            writer->length--;
        }
        if (writer->length) {
            uart_interrupts(interrupts | UART_IE_CAN_SEND);
            return;
        }
        take(&writers);
        wake(writer);
    }
    uart_interrupts(interrupts & ~UART_IE_CAN_SEND);
}

void uart_write(struct thread *self, uint8_t *bytes, uint32_t length)
{
    self->x[A0] = length;
    if (!writers.first)
        while (length && REGISTER(UART_TXSTATUS)) {
            REGISTER(UART_TXDATA) = *bytes++;
            length--;
        }
    if (!length)
        return;
    self->bytes = bytes;
    self->length = length;
    wait(self, &writers, LEAVE_UART);
    uart_interrupts(interrupts | UART_IE_CAN_SEND);
}

static void deliver(struct thread *reader)
{
    uint32_t done = 0;
    while (done < reader->length && received_count) {
        reader->bytes[done++] = received[received_head];
        received_head = (received_head + 1) % sizeof received;
        received_count--;
    }
    reader->x[A0] = done;
}

static void receive(void)
{
    while (received_count < sizeof received && REGISTER(UART_RXSTATUS))
        received[(received_head + received_count++) % sizeof received] = (uint8_t) REGISTER(UART_RXDATA);
    while (readers.first && received_count) {
        struct thread *reader = take(&readers);
        deliver(reader);
        wake(reader);
    }
    if (received_count == sizeof received) /* stop until a thread reads; the device holds what comes meanwhile */
        uart_interrupts(interrupts & ~UART_IE_RECEIVED);
}

void uart_read(struct thread *self, uint8_t *bytes, uint32_t length)
{
    self->bytes = bytes;
    self->length = length;
    if (received_count || !length)
        deliver(self);
    else
        wait(self, &readers, LEAVE_UART);
    uart_interrupts(interrupts | UART_IE_RECEIVED);
}

/* Begin a transfer; there is one at a time. `value` of a waiting thread is the command, `length` the number of sectors. */
static void begin_transfer(void)
{
    struct thread *first = transfers.first;
    transferring = first != NULL;
    REGISTER(BLOCK_IE) = transferring;
    if (!first)
        return;
    REGISTER(BLOCK_ACK) = 1; /* acknowledge the end of a command that a polling thread gave */
    REGISTER(BLOCK_SECTOR) = first->sector;
    REGISTER(BLOCK_ADDRESS) = (uint32_t) first->bytes;
    REGISTER(BLOCK_COUNT) = first->length;
    REGISTER(BLOCK_COMMAND) = first->value;
}

void block_transfer(struct thread *self, uint32_t command, uint32_t sector, uint8_t *bytes, uint32_t count)
{
    self->value = command;
    self->sector = sector;
    self->bytes = bytes;
    self->length = count;
    wait(self, &transfers, LEAVE_BLOCK);
    if (!transferring)
        begin_transfer();
}

static void transfer_done(void)
{
    uint32_t status = REGISTER(BLOCK_STATUS);
    if (!transferring || status == BLOCK_BUSY)
        return;
    REGISTER(BLOCK_ACK) = 1;
    struct thread *thread = take(&transfers);
    thread->x[A0] = status == BLOCK_FAILED ? UINT32_MAX : 0;
    wake(thread);
    begin_transfer();
}

void external_interrupt(void)
{
    uint32_t source;
    while ((source = REGISTER(PLIC_CLAIM))) {
        if (source == PLIC_UART_CAN_SEND)
            send();
        else if (source == PLIC_UART_RECEIVED)
            receive();
        else if (source == PLIC_BLOCK)
            transfer_done();
        REGISTER(PLIC_CLAIM) = source;
    }
}
