#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static char data[1 << 20];
int main(int argc, char **argv) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) return 77;
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    unsigned *tail = (void *)(sq + p.sq_off.tail), *array = (void *)(sq + p.sq_off.array);
    int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (unsigned i = 0; i < 8; i++) {
        memset(&e[i], 0, sizeof *e);
        e[i].opcode = IORING_OP_WRITE;
        e[i].flags = IOSQE_ASYNC;
        e[i].fd = file;
        e[i].addr = (unsigned long)data;
        e[i].len = sizeof data;
        e[i].off = (unsigned long)i * sizeof data;
        array[i] = i;
        __atomic_store_n(tail, i + 1, __ATOMIC_RELEASE);
    }
    return syscall(SYS_io_uring_enter, ring, 8, 8, IORING_ENTER_GETEVENTS, 0, 0) != 8;
}
