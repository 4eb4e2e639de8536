#include <stdio.h>
int table[100] = {1}, zero[50];
__attribute__((noinline)) static int inner(int n) { __asm__ volatile("" : "+r"(n)); return n; }
__attribute__((noinline)) int outer(int n) { return inner(n) + table[n & 7] + zero[n & 7]; }
int main(void) { return outer(0) == 5; }
