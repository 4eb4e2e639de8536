#include <fcntl.h>
#include <unistd.h>
#include <errno.h>
static volatile unsigned long sink;
int main(void)
{
    int ends[2];
    char byte;
    pipe(ends);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 40000; i++) {
        while (read(ends[0], &byte, 1) >= 0);
        for (volatile int k = 0; k < 2000; k++) sink += k;
    }
    return 0;
}
