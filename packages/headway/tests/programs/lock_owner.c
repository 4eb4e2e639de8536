/* A thread waits for a mutex that another one has, once for each kind of mutex; then for a condition, which nobody has. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_mutex_t mutex, guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int signalled;
static volatile pid_t tid;
/* Until the thread that was begun last waits. */
static void until_it_waits(void) {
    char path[64], text[512];
    for (char state = 'R'; state != 'S'; usleep(1000)) {
        if (!tid) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        if (!file || !fgets(text, sizeof text, file)) exit(3);
        fclose(file);
        state = strrchr(text, ')')[2];
    }
    tid = 0;
}
static void *locker(void *name) {
    pthread_setname_np(pthread_self(), name);
    tid = syscall(SYS_gettid);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}
static void *waiter(void *name) {
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&guard);
    tid = syscall(SYS_gettid);
    while (!signalled)
        pthread_cond_wait(&condition, &guard);
    pthread_mutex_unlock(&guard);
    return 0;
}
static void hold(char *name, int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (pthread_mutexattr_setprotocol(&attributes, protocol)) exit(3);
    pthread_mutex_init(&mutex, &attributes);
    pthread_t id;
    pthread_mutex_lock(&mutex);
    pthread_create(&id, 0, locker, name);
    until_it_waits();
    pthread_mutex_unlock(&mutex);
    pthread_join(id, 0);
    pthread_mutex_destroy(&mutex);
}
int main(void) {
    hold("plain", PTHREAD_PRIO_NONE);
    hold("inheriting", PTHREAD_PRIO_INHERIT);
    pthread_t id;
    pthread_create(&id, 0, waiter, "condition");
    until_it_waits();
    pthread_mutex_lock(&guard);
    signalled = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&guard);
    pthread_join(id, 0);
    return 0;
}
