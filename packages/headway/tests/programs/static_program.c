#include "report.h"
int main(void) { HEADWAY_POLL("s") { report("in"); } return 0; }
