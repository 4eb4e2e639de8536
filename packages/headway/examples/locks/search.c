/* One thread answers searches, and another renews the index behind the same lock: who waits, for what, because of whom?

       cc -O2 -pthread search.c -o search
       sudo headway stat --why wait -- ./search

   A search holds the lock for a moment. Renewing the index holds it for as long as that takes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 2000000, ALL_WORDS = 1 << 24, RENEWALS = 10 };

static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static int words[WORDS];
static atomic_bool done;

static int by_value(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static void *renew_index(void *unused) {
    unsigned seed = 1;
    for (int n = 0; n < RENEWALS; n++) {
        pthread_mutex_lock(&index_lock);
        for (int i = 0; i < WORDS; i++) words[i] = rand_r(&seed) % ALL_WORDS;
        qsort(words, WORDS, sizeof *words, by_value);
        pthread_mutex_unlock(&index_lock);
        usleep(100000);
    }
    done = 1;
    return unused;
}

int main(void) {
    pthread_t renewing;
    pthread_create(&renewing, NULL, renew_index, NULL);
    pthread_setname_np(renewing, "renew-index");
    unsigned seed = 2;
    long searches = 0, found = 0;
    for (; !done; searches++) {
        int word = rand_r(&seed) % ALL_WORDS;
        pthread_mutex_lock(&index_lock);
        found += bsearch(&word, words, WORDS, sizeof word, by_value) != NULL;
        pthread_mutex_unlock(&index_lock);
        usleep(1000);
    }
    pthread_join(renewing, NULL);
    printf("%ld searches, %ld of them found the word\n", searches, found);
    return 0;
}
