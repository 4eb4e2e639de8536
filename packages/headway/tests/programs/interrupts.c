#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *interrupt(void *nothing) {
    for (;;) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        for (int i = 0; i < 20; i++) syscall(SYS_getppid);
    }
    return nothing;
}
int main(void) {
    pthread_t thread;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)) return 1;
    pthread_create(&thread, 0, interrupt, 0);
    interrupt(0);
}
