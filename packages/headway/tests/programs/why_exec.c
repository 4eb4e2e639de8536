#include "causes.h"
static void *run(void *path) { nap(50); execl(path, path, (char *)0); return 0; }
int main(int argc, char **argv) { pthread_t t; pthread_create(&t, 0, run, argv[1]); pthread_join(t, 0); }
