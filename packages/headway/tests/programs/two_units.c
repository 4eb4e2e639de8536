#include "report.h"
void *other(void);
int main(void) {
    void *theirs = other();
    report("here");
    printf("same=%d\n", theirs == headway_self_);
    return 0;
}
