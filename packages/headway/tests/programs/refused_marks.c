#include <headway.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *none) { headway_set_noneffective(0); usleep(300000000); return none; }
int main(int n, char **arguments) {
    char tag[8];
    pthread_t id;
    (void)n; (void)arguments;
    headway_set_noneffective(0);
    for (int i = 0; i < 40; i++) { snprintf(tag, sizeof tag, "%d", i); headway_tag(tag); }
    pthread_create(&id, 0, work, 0);
    while (!__atomic_load_n(&headway_arena_->refused_threads, __ATOMIC_RELAXED)) usleep(1000);
    headway_self_->tags[0].word += 123456789000000000;
    if (write(1, "!", 1) != 1) return 1;
    usleep(300000000);
    return 0;
}
