#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
/* The beginning of the runtime and the interpreter's state as CPython 3.13 has them, built without a GIL. */
struct gil { int32_t enabled; unsigned long interval; void *last_holder; int32_t locked; unsigned long switches;
             pthread_cond_t cond; pthread_mutex_t mutex; pthread_cond_t other_cond; pthread_mutex_t other_mutex; };
struct interpreter { struct gil *used; struct interpreter *next; struct gil own; };
struct { char cookie[8]; uint64_t words[40]; struct interpreter *head; struct interpreter main; char lock; }
_PyRuntime = {
    "xdebugpy",
    {0x030D00F0, 1, sizeof _PyRuntime, 0, __builtin_offsetof(__typeof__(_PyRuntime), head),
     sizeof(struct interpreter), 0, 8, 0, 0, 0, 0, 0, 0, 16, 0, 16 + __builtin_offsetof(struct gil, locked),
     16 + __builtin_offsetof(struct gil, last_holder)},
    &_PyRuntime.main, {&_PyRuntime.main.own, 0, {0}}, 0};
const unsigned long Py_Version = 0x030D00F0;
int main(int argc, char **argv)
{
    (void)argv;
    _PyRuntime.main.own.enabled = argc > 1;
    int on_stack;
    printf("%p %p %p\n", (void *)&_PyRuntime.main.own.mutex, (void *)&_PyRuntime.lock, (void *)&on_stack);
    fflush(stdout);
    getchar();
}
