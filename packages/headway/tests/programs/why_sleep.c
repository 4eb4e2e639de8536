#include "causes.h"
int main(void) { for (int i = 0; i < 20; i++) nap(10); }
