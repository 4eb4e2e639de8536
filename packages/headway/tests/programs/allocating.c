#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    void *volatile p;
    for (int i = 0; i < 5000; i++) { p = malloc(i + 1); p = realloc(p, 2 * i + 1); free(p); }
    for (int i = 0; i < 300; i++) { p = calloc(i + 1, 2); free(p); p = aligned_alloc(64, 64); free(p); }
    return 0;
}
