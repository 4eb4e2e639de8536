#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;
static void *play(void *mine) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 500; i++) {
        while (turn != (long)mine) pthread_cond_wait(&turned, &lock);
        turn = !turn;
        pthread_cond_signal(&turned);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, play, (void *)1);
    play(0);
    pthread_join(other, 0);
    return 0;
}
