/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of progress.bpf.c without all that only some measurements ask for (OPTION). */
#define PLAIN
#include "progress.bpf.c"
