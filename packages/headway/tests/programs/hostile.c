#include "marking.h"
#define REGISTER 0x48574159
#define NAMES 32
static struct headway_block *block;
static char (*names)[32];
static unsigned long seed = 88172645463325252ul;
static unsigned long any(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed; }
static int tell(void *p) { return syscall(SYS_prctl, REGISTER, p, 1L, 0L, 0L) == -1; }
static void *fresh(unsigned long size) {
    return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void make(void) {
    block = fresh(8192);
    names = fresh(4096);
    for (int i = 0; i < NAMES; i++) snprintf(names[i], 32, "noneffective.lie%d", i);
    block->magic = HEADWAY_BLOCK_MAGIC_;
    block->tid = syscall(SYS_gettid);
    block->n_tags = NAMES;
    block->names = (unsigned long)names;
    block->since = now();
}
static int calls(void) { /* many spans of user code */
    for (int i = 0; i < 2000; i++) { if (syscall(SYS_getppid) < 0) return 1; for (volatile int j = 0; j < 300; j++) ; }
    return 0;
}
static void *hand_over(void *p) { return (void *)(long)!tell(p); }
int main(int argc, char **argv) {
    const char *how = argv[1];
    pthread_t t;
    void *result = 0;
    make();
    if (!strcmp(how, "addresses")) {
        unsigned long wrong[] = {0, 1, 7, 8, 0x1000, 0xdeadbeef000, 0xffff888000000000, 0xffffffffff600000,
            0xfffffffffffffff8, 1ul << 48, 1ul << 63, 0x7ffffffff000, 0x7ffffffffff8,
            (unsigned long)block + 1, (unsigned long)block + 8, (unsigned long)block + 8192 - 8,
            (unsigned long)main & ~7ul};
        for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) if (!tell((void *)wrong[i]) || calls()) return 1;
        block->magic++;
        if (!tell(block) || calls()) return 1;
        printf("%lu\n", sizeof wrong / sizeof *wrong + 1);
        return 0;
    }
    if (!strcmp(how, "foreign")) { /* a thread registers the block of another, many times */
        for (int i = 0; i < 10; i++) {
            if (pthread_create(&t, 0, hand_over, block) || pthread_join(t, &result) || result) return 1;
        }
        puts("10");
        return 0;
    }
    if (!tell(block)) return 1;
    for (int i = 0; i < 3000; i++) {
        if (!strcmp(how, "backwards")) block->tags[0].word -= 2 * (any() % 100000000);
        if (!strcmp(how, "garbage"))
            for (int j = 0; j < NAMES; j++) block->tags[j].word = any(), block->tags[j].entries = any();
        if (!strcmp(how, "entries")) block->tags[0].entries += 0xfffffffful;
        if (!strcmp(how, "all on")) for (int j = 0; j < NAMES; j++) block->tags[j].word = 1 - 2 * block->since;
        if (!strcmp(how, "future")) block->tags[0].word = (1ul << 62) + i, block->since = ~0ul;
        if (!strcmp(how, "many tags")) block->n_tags = ~0u, block->tags[i % 32].word += 2000;
        if (!strcmp(how, "since")) block->since = any(), block->tags[i % 32].word += 2000;
        if (!strcmp(how, "names nowhere")) block->names = any(), block->tags[i % 32].word += 200;
        if (!strcmp(how, "names without end")) memset(names, i ? 'x' : 0xff, 4096), block->tags[i % 32].word += 200;
        if (!strcmp(how, "names change")) names[0][13] = 'a' + i % 26, block->tags[i % 32].word += 200;
        if (!strcmp(how, "magic")) block->magic = i % 2 ? any() : HEADWAY_BLOCK_MAGIC_;
        if (!strcmp(how, "unmapped") && i == 1000) munmap(block, 8192);
        if (!strcmp(how, "half unmapped") && i == 1000) {
            struct headway_block *at = (void *)((char *)block + 4096 - 128);
            memmove(at, block, 128);
            munmap((char *)block + 4096, 4096);
            if (!tell(at)) return 1;
        }
        if (!strcmp(how, "protected") && i % 500 == 0) mprotect(block, 8192, i % 1000 ? PROT_READ : PROT_NONE);
        if (!strcmp(how, "after a check") && i == 1000) { /* the call that tells of a block ends a row of checks */
            char byte;
            int pair[2];
            socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
            make();
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
            if (!tell(block)) return 1;
        }
        if (!strcmp(how, "after a check") && i > 1000) block->tags[0].word += 2000, block->tags[0].entries++;
        if (!strcmp(how, "again")) if (!tell(block)) return 1;
        syscall(SYS_getppid);
        for (volatile int j = 0; j < 300; j++) ;
    }
    puts("0");
    return 0;
}
