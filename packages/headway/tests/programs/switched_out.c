#include "marking.h"
int main(void) {
    HEADWAY_NONEFFECTIVE("sleepy") {
        for (int i = 0; i < 10; i++) { work(1000000); usleep(20000); }
    }
    work(20000000);
    return 0;
}
