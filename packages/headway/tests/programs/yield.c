#include <sched.h>
int main(void) { for (int i = 0; i < 20000; i++) sched_yield(); return 0; }
