/* Until an observer has looked at this process as it is now. It opens the FIFO that the environment names before each
 * look, and closes it after that; the first look that ends may have begun too early. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static inline void until_seen(void) {
    const char *path = getenv("UNTIL_SEEN");
    if (!path) return;
    for (int i = 0; i < 2; i++) {
        int fifo = open(path, O_RDONLY | O_CLOEXEC);
        char nothing;
        if (fifo < 0 || read(fifo, &nothing, 1)) exit(8);
        close(fifo);
    }
}
