#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>
static int pipes[2][2];
static void *answer(void *unused) {
    char byte;
    while (read(pipes[0][0], &byte, 1) == 1) write(pipes[1][1], &byte, 1);
    return unused;
}
// two_threads [N]: it asks and is answered so often.
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    pthread_t thread;
    char byte = 0;
    pipe(pipes[0]); pipe(pipes[1]);
    pthread_create(&thread, 0, answer, 0);
    for (int i = 0; i < rounds; i++) {
        for (int j = 0; j < 10; j++) syscall(SYS_getppid);
        write(pipes[0][1], &byte, 1);
        read(pipes[1][0], &byte, 1);
    }
    close(pipes[0][1]);
    pthread_join(thread, 0);
    return 7;
}
