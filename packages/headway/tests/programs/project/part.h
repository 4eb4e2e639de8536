/* A part of the project: 120 functions, of which some work is made for a compiler. */
#include <stdio.h>
#include <stdlib.h>
#define NAMED(part, n) f##part##_##n
#define NAME(part, n) NAMED(part, n)
#define F(n) int NAME(PART, n)(int x) { char b[64]; snprintf(b, sizeof b, "%d", x + n); return atoi(b) ^ n; }
#define TEN(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) TEN(12)
