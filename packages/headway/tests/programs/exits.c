#include <unistd.h>
#include <sys/wait.h>
int main(void) {
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (!child) { usleep(1000); return 0; }
        if (waitpid(child, 0, 0) != child) return 1;
    }
    return 0;
}
