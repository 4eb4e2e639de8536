"""Marked regions as the eBPF programs charge them, where a mark is interrupted between its clock and its store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.linux.measuring import measure, only

Compile = Callable[..., Path]

LATE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int late;
int clock_gettime(clockid_t clock, struct timespec *into) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, into);
    if (late) {
        for (volatile int i = 0; i < 20000; i++) ;
        syscall(SYS_getppid);
    }
    return status;
}
#include <headway.h>
int main(void) {
    headway_tag_t tag = headway_tag("late");
    for (int i = 0; i < 200; i++) {
        late = 0;
        headway_set_noneffective(tag);
        late = 1;
        headway_clear_noneffective();
        syscall(SYS_getppid);
    }
    return 0;
}
"""


@pytest.mark.root
def test_a_moment_read_long_before_an_interruption_and_written_after_it_is_no_lie(compile_marked: Compile) -> None:
    thread = only(measure(compile_marked(LATE, flags=("-std=gnu11",)))[0])
    assert thread.states["noneffective.late"].count == 200
