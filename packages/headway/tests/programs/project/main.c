int f0_10(int);
int main(void) { return f0_10(3) != (13 ^ 10); }
