/* A thread waits for a mutex while its holder sleeps, and then for one while its holder waits for a child process. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "until_seen.h"
pthread_mutex_t sleepy_lock = PTHREAD_MUTEX_INITIALIZER, parent_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t tid;
static void *locker(void *mutex) {
    tid = syscall(SYS_gettid);
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return 0;
}
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
static void hold(pthread_mutex_t *mutex, int with_child) {
    pthread_t id;
    pthread_mutex_lock(mutex);
    pthread_create(&id, 0, locker, mutex);
    until_it_waits();
    if (with_child) {
        pid_t child = fork();
        if (!child) {
            usleep(300000);
            _exit(0);
        }
        waitpid(child, 0, 0);
    } else
        usleep(300000);
    pthread_mutex_unlock(mutex);
    pthread_join(id, 0);
}
int main(void) {
    hold(&sleepy_lock, 0);
    hold(&parent_lock, 1);
    until_seen();
    return 0;
}
