char m[99]; void *malloc(unsigned long n) { return m + n % 9; } int main(void) { return 0; }
