/* Mutexes, conditions and bounded queues. Waiting threads are served in order of arrival. */

#include "kernel.h"

void mutex_lock(struct thread *self, struct hw_mutex *mutex)
{
    if (!mutex->owner)
        mutex->owner = self;
    else
        wait(self, &mutex->waiters, LEAVE_MUTEX);
}

/* Give the mutex to the thread that has waited longest. */
static void pass_on(struct hw_mutex *mutex)
{
    mutex->owner = take(&mutex->waiters);
    if (mutex->owner)
        wake(mutex->owner);
}

void mutex_unlock(struct thread *self, struct hw_mutex *mutex)
{
    if (mutex->owner != self)
        panic("unlocked a mutex that it does not own", self);
    pass_on(mutex);
}

void condition_wait(struct thread *self, struct hw_condition *condition, struct hw_mutex *mutex)
{
    if (mutex->owner != self)
        panic("waits for a condition without its mutex", self);
    self->mutex = mutex;
    wait(self, &condition->waiters, LEAVE_CONDITION);
    pass_on(mutex);
}

void condition_signal(struct thread *self, struct hw_condition *condition, uint32_t most)
{
    struct thread *thread;
    (void) self;
    while (most-- && (thread = take(&condition->waiters))) {
        if (thread->mutex->owner) {
            append(&thread->mutex->waiters, thread);
        } else {
            thread->mutex->owner = thread;
            wake(thread);
        }
    }
}

void queue_send(struct thread *self, struct hw_queue *queue, uint32_t value)
{
    struct thread *receiver = take(&queue->receivers);
    if (receiver) {
        receiver->x[A0] = value;
        wake(receiver);
    } else if (queue->count < queue->capacity) {
        queue->ring[(queue->head + queue->count++) % queue->capacity] = value;
    } else {
        self->value = value;
        wait(self, &queue->senders, LEAVE_QUEUE);
    }
}

void queue_receive(struct thread *self, struct hw_queue *queue)
{
    if (!queue->count) {
        wait(self, &queue->receivers, LEAVE_QUEUE);
        return;
    }
    self->x[A0] = queue->ring[queue->head];
    queue->head = (queue->head + 1) % queue->capacity;
    struct thread *sender = take(&queue->senders);
    if (sender) {
        queue->ring[(queue->head + queue->count - 1) % queue->capacity] = sender->value;
        wake(sender);
    } else {
        queue->count--;
    }
}
