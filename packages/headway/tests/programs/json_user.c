#include <stdio.h>
int json_parse(int);
__attribute__((noinline)) static int work(int n) { return json_parse(n) + 1; }
int main(int argc, char **argv)
{
    (void)argv;
    puts("ready");
    fflush(stdout);
    return work(argc) + getchar() == -5;
}
