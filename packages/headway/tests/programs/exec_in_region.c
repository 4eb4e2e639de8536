#include <headway.h>
#include <unistd.h>
int main(int n, char **arguments) {
    (void)n;
    headway_set_noneffective(headway_tag("outer"));
    headway_set_noneffective(headway_poll_tag("inner"));
    if (write(1, "!", 1) != 1 || read(0, arguments[0], 1) != 1) return 1;
    execl("/bin/cat", "cat", (char *)0);
    return 1;
}
