int total;
static int sum(int to) {
  for (int i = 0; i < to; i++)
    total += i;
  return total;
}
__attribute__((noinline)) int twice(int x) {
#line 77 "folder/other.h"
  return 2 * x;
}
void _start(void) { sum(twice(total)); }
