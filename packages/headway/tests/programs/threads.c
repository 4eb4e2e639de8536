#include <pthread.h>
#include <stdlib.h>
static void *nothing(void *p) { return p; }
int main(int argc, char **argv) {
    for (int n = atoi(argv[1]); n; n--) {
        pthread_t t;
        if (pthread_create(&t, NULL, nothing, NULL)) return 1;
        pthread_join(t, NULL);
    }
    return 0;
}
