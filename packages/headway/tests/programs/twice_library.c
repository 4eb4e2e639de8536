__attribute__((noinline)) int twice(int n) { __asm__ volatile("" : "+r"(n)); return 2 * n; }
__attribute__((noinline)) int deep(int n) { int m = n ? deep(n - 1) + 1 : 0; __asm__ volatile("" : "+r"(m)); return m; }
