int answer = 42;
__attribute__((noinline)) int json_parse(int n) { return n + 1; }
__attribute__((noinline)) int json_print(int n) { return n + 2; }
int json_write(int n) __attribute__((alias("json_print")));
__attribute__((noinline)) int other(int n) { return n + 3; }
