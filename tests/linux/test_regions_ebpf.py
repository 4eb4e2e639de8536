"""Marked regions as the eBPF programs see them (T5 to T7): by a program's own clock, come what may, and if it lies."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headway
from headway.linux.options import Selection
from headway.model import Kind, Ledger, Thread, interrupt_time

from .measuring import count_of, lost, measure, measure_intervals, only, own_time, time_in

pytestmark = pytest.mark.root

Compiler = Callable[[str, str], Path]

PROLOGUE = f"""
#define _GNU_SOURCE
#include "{headway.get_include()}/headway.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void) {{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}}
static long work(long ns) {{ /* how long it took */
    long start = now(), t;
    do t = now(); while (t < start + ns);
    return t - start;
}}
"""


def disturbed(thread: Thread) -> int:
    """Time that passed on the program's clock and that none of its regions had, ns."""
    return time_in(thread, "ready", "kernel.", "stolen", "overhead", "unknown", "wait.") + interrupt_time(thread.states)


def agrees(thread: Thread, state: str, truth: int) -> None:
    """The state's time is what the program's clock says, within 5 % of its processor time, less what disturbed it."""
    margin = 0.05 * own_time(thread)
    assert truth - disturbed(thread) - margin < time_in(thread, state) < truth + margin, state


# ---- time ----

SHARES = (
    PROLOGUE
    + """
int main(void) {
    long outer = 0, inner = 0, polled = 0, plain = 0;
    for (int i = 0; i < 300; i++) {
        plain += work(200000);
        HEADWAY_NONEFFECTIVE("outer") {
            outer += work(150000);
            HEADWAY_NONEFFECTIVE("inner") inner += work(50000);
            outer += work(100000);
            HEADWAY_POLL("ring") polled += work(100000);
        }
        if (i % 10 == 0) syscall(SYS_getppid);
    }
    printf("%ld %ld %ld %ld\\n", outer, inner, polled, plain);
    return 0;
}
"""
)


def test_regions_have_the_time_that_the_program_spent_in_them(compile_c: Compiler) -> None:
    ledger, said = measure(compile_c("shares", SHARES))
    thread = only(ledger)
    outer, inner, ring, plain = map(int, said)
    agrees(thread, "noneffective.outer", outer)
    agrees(thread, "noneffective.inner", inner)
    agrees(thread, "poll.ring", ring)
    agrees(thread, "user", plain)
    for state in ("noneffective.outer", "noneffective.inner", "poll.ring"):
        assert count_of(thread, state) == 300, "coming back from an inner region is not entering"
    times = thread.times()
    assert times[Kind.POLL] == time_in(thread, "poll.ring"), "a tag that says poll is IOPI"
    assert times[Kind.KERNEL] >= time_in(thread, "noneffective."), "the others are KPI"


SWITCHED_OUT = (
    PROLOGUE
    + """
int main(void) {
    HEADWAY_NONEFFECTIVE("sleepy") {
        for (int i = 0; i < 10; i++) { work(1000000); usleep(20000); }
    }
    work(20000000);
    return 0;
}
"""
)


def test_what_is_waited_for_in_a_region_is_a_wait(compile_c: Compiler) -> None:
    thread = only(measure(compile_c("switched_out", SWITCHED_OUT))[0])
    assert thread.states["wait.sleep"].time >= 200_000_000 - time_in(thread, "stolen", "ready", "kernel.")
    assert 0 < time_in(thread, "noneffective.sleepy") < 20_000_000, "that is where the work after it would begin"
    assert time_in(thread, "noneffective.sleepy") + disturbed(thread) > 10_000_000
    assert count_of(thread, "noneffective.sleepy") == 1


THREADS = (
    PROLOGUE
    + """
static void *run(void *p) {
    long took = 0;
    for (int i = 0; i < 20; i++) {
        HEADWAY_NONEFFECTIVE("shared") took += work(100000);
        work(100000);
    }
    HEADWAY_NONEFFECTIVE("last") { work(1000000); if ((long)p & 1) pthread_exit(0); syscall(SYS_exit, 0); }
    return p;
}
int main(void) {
    pthread_t t[48];
    for (long i = 0; i < 48; i++) pthread_create(&t[i], 0, run, (void *)i);
    for (long i = 0; i < 48; i++) pthread_join(t[i], 0);
    return 0;
}
"""
)


def test_threads_have_regions_of_their_own_and_may_end_in_one(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("marked_threads", THREADS))
    threads = [t for t in ledger.threads if t.tid != t.pid]
    assert len(threads) == 48
    for thread in threads:
        assert count_of(thread, "noneffective.shared") == 20
        assert count_of(thread, "noneffective.last") == 1
        for state in ("noneffective.shared", "noneffective.last"):
            assert time_in(thread, state) < 5_000_000 + disturbed(thread)
    main = next(t for t in ledger.threads if t.tid == t.pid)
    assert time_in(main, "noneffective") == 0


FORK = (
    PROLOGUE
    + """
int main(void) {
    HEADWAY_NONEFFECTIVE("before") {
        work(10000000);
        if (!fork()) {
            prctl(PR_SET_NAME, "child");
            work(30000000);                                    /* still in the region */
            HEADWAY_NONEFFECTIVE("inside") work(20000000);
            headway_restore(0);
            work(40000000);
            _exit(0);
        }
        if (!fork()) {
            work(10000000);
            execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done", (char *)0);
        }
        wait(0);
        wait(0);
    }
    return 0;
}
"""
)


def test_a_child_goes_on_in_the_region_and_a_new_program_begins_without(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("fork_in_region", FORK))
    child, executed = only(ledger, "child"), only(ledger, "sh")
    agrees(child, "noneffective.before", 30_000_000)
    agrees(child, "noneffective.inside", 20_000_000)
    agrees(child, "user", 40_000_000)
    assert time_in(executed, "noneffective.before") < 20_000_000, "the program before had 30 ms more"
    assert time_in(executed, "noneffective.before") + disturbed(executed) > 9_000_000
    assert time_in(executed, "user") > 0


SIGNALS = (
    PROLOGUE
    + """
static volatile long handled, times;
static void handler(int n) { (void)n; HEADWAY_NONEFFECTIVE("handler") handled += work(200000); times++; }
int main(void) {
    struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    struct sigaction on = {.sa_handler = handler, .sa_flags = SA_RESTART};
    long all = 0;
    sigaction(SIGALRM, &on, 0);
    headway_tag("handler");
    setitimer(ITIMER_REAL, &each, 0);
    HEADWAY_NONEFFECTIVE("main") all = work(300000000);
    setitimer(ITIMER_REAL, &none, 0);
    printf("%ld %ld %ld\\n", all - handled, handled, times);
    return 0;
}
"""
)


def test_signal_handlers_that_mark_regions_in_a_region(compile_c: Compiler) -> None:
    ledger, (outside, inside, times) = measure(compile_c("signals", SIGNALS))
    thread = only(ledger)
    agrees(thread, "noneffective.main", int(outside))
    agrees(thread, "noneffective.handler", int(inside))
    assert count_of(thread, "noneffective.handler") == int(times)


POLLS_INSIDE = (
    PROLOGUE
    + """
int main(void) { /* a row of checks within a region, of one thing and of two in turn */
    int pair[2][2];
    char byte;
    for (int i = 0; i < 2; i++) socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]);
    HEADWAY_NONEFFECTIVE("around") {
        for (int two = 0; two < 2; two++)
            for (int i = 0; i < 20000; i++) {
                recv(pair[i & two][0], &byte, 1, MSG_DONTWAIT);
                work(2000);
            }
        work(5000000);
    }
    return 0;
}
"""
)


def test_a_row_of_checks_in_a_region_is_polling(compile_c: Compiler) -> None:
    thread = only(measure(compile_c("polls_inside", POLLS_INSIDE))[0])
    assert count_of(thread, "poll.recvfrom.socket") > 0.95 * 40_000
    assert time_in(thread, "poll.recvfrom.socket") > 40_000 * 2000 * 0.9 - disturbed(thread)
    whole, parts = measure_intervals(0.01, compile_c("polls_inside", POLLS_INSIDE))
    assert len(parts) > 1
    assert time_in(only(whole), "noneffective.around") < 0.3 * time_in(only(whole), "poll.recvfrom.socket")


TOGGLE = (
    PROLOGUE
    + """
int main(int argc, char **argv) { /* in and out, as fast as it can */
    long end = now() + atol(argv[1]) * 1000000, in = 0, n = 0;
    headway_tag_t a = headway_tag("a"), b = headway_poll_tag("b");
    if (argc > 2) { puts("ready"); fflush(stdout); }
    while (now() < end) {
        for (int i = 0; i < 200; i++, n++) {
            headway_set_noneffective(a);
            for (volatile int j = 0; j < 200; j++) ;
            headway_set_noneffective(b);
            for (volatile int j = 0; j < 200; j++) ;
            headway_clear_noneffective();
            headway_clear_noneffective();
            for (volatile int j = 0; j < 200; j++) ;
        }
    }
    printf("%ld\\n", n);
    return in;
}
"""
)


def test_regions_of_a_microsecond_in_intervals_of_twenty_milliseconds(compile_c: Compiler) -> None:
    whole, parts = measure_intervals(0.02, compile_c("toggle", TOGGLE), "700")
    assert len(parts) > 5
    thread = only(whole)
    assert count_of(thread, "noneffective.a") == count_of(thread, "poll.b")
    a, b, plain = (time_in(thread, s) for s in ("noneffective.a", "poll.b", "user"))
    assert min(a, b, plain) > 0.2 * (a + b + plain)
    for part, after in itertools.pairwise(parts[1:]):  # what is stolen at its end may be found in the next one only
        for state in ("noneffective.a", "poll.b", "user"):
            others = disturbed(only(part)) + disturbed(only(after))
            assert time_in(only(part), state) < 0.6 * own_time(only(part)) + others, state


def test_regions_are_counted_one_by_one(compile_c: Compiler) -> None:
    ledger, (n,) = measure(compile_c("toggle", TOGGLE), "200")
    assert count_of(only(ledger), "poll.b") == int(n)


# ---- from outside ----


@contextmanager
def running(*command: str | Path) -> Iterator[int]:
    """A program that has said that it is ready."""
    target = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    assert target.stdout is not None
    try:
        target.stdout.readline()
        yield target.pid
    finally:
        target.kill()
        target.wait()


def test_regions_of_a_program_that_was_there_before_are_found(compile_c: Compiler) -> None:
    with running(compile_c("toggle", TOGGLE), "60000", "ready") as pid:
        ledger, _ = measure(selection=Selection(pids=(pid,)), seconds=0.6)
        whole, _ = measure_intervals(0.1, selection=Selection(pids=(pid,)), duration=0.6)
    for found in (ledger, whole):
        thread = only(found)
        a, b, plain = (time_in(thread, s) for s in ("noneffective.a", "poll.b", "user"))
        assert min(a, b) > 0.1 * (a + b + plain)


def test_regions_in_a_pid_namespace_of_its_own(compile_c: Compiler) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare and permission to make a pid namespace")
    ledger, (n,) = measure(*unshare, compile_c("toggle", TOGGLE), "100")
    assert count_of(only(ledger, "toggle"), "poll.b") == int(n)


def test_regions_of_python() -> None:
    code = (
        "import headway,time\n"
        "def work(s):\n"
        " end=time.perf_counter()+s\n"
        " while time.perf_counter()<end: pass\n"
        "@headway.poll('queue')\n"
        "def ask(): work(.02)\n"
        "for i in range(5):\n"
        " with headway.noneffective('parse'): work(.03)\n"
        " ask()\n"
    )
    ledger, _ = measure(sys.executable, "-c", code)
    thread = min(ledger.threads, key=lambda t: t.birth)
    agrees(thread, "noneffective.parse", 150_000_000)
    agrees(thread, "poll.queue", 100_000_000)
    assert count_of(thread, "noneffective.parse") == count_of(thread, "poll.queue") == 5


# ---- blocks that lie ----

HOSTILE = (
    PROLOGUE
    + """
#define REGISTER 0x48574159
#define NAMES 32
static struct headway_block *block;
static char (*names)[32];
static unsigned long seed = 88172645463325252ul;
static unsigned long any(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed; }
static int tell(void *p) { return syscall(SYS_prctl, REGISTER, p, 1L, 0L, 0L) == -1; }
static void *fresh(unsigned long size) {
    return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void make(void) {
    block = fresh(8192);
    names = fresh(4096);
    for (int i = 0; i < NAMES; i++) snprintf(names[i], 32, "noneffective.lie%d", i);
    block->magic = HEADWAY_BLOCK_MAGIC_;
    block->tid = syscall(SYS_gettid);
    block->n_tags = NAMES;
    block->names = (unsigned long)names;
    block->since = now();
}
static int calls(void) { /* many spans of user code */
    for (int i = 0; i < 2000; i++) { if (syscall(SYS_getppid) < 0) return 1; for (volatile int j = 0; j < 300; j++) ; }
    return 0;
}
static void *hand_over(void *p) { return (void *)(long)!tell(p); }
int main(int argc, char **argv) {
    const char *how = argv[1];
    pthread_t t;
    void *result = 0;
    make();
    if (!strcmp(how, "addresses")) {
        unsigned long wrong[] = {0, 1, 7, 8, 0x1000, 0xdeadbeef000, 0xffff888000000000, 0xffffffffff600000,
            0xfffffffffffffff8, 1ul << 48, 1ul << 63, 0x7ffffffff000, 0x7ffffffffff8,
            (unsigned long)block + 1, (unsigned long)block + 8, (unsigned long)block + 8192 - 8,
            (unsigned long)main & ~7ul};
        for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) if (!tell((void *)wrong[i]) || calls()) return 1;
        block->magic++;
        if (!tell(block) || calls()) return 1;
        printf("%lu\\n", sizeof wrong / sizeof *wrong + 1);
        return 0;
    }
    if (!strcmp(how, "foreign")) { /* a thread registers the block of another, many times */
        for (int i = 0; i < 10; i++) {
            if (pthread_create(&t, 0, hand_over, block) || pthread_join(t, &result) || result) return 1;
        }
        puts("10");
        return 0;
    }
    if (!tell(block)) return 1;
    for (int i = 0; i < 3000; i++) {
        if (!strcmp(how, "backwards")) block->tags[0].word -= 2 * (any() % 100000000);
        if (!strcmp(how, "garbage"))
            for (int j = 0; j < NAMES; j++) block->tags[j].word = any(), block->tags[j].entries = any();
        if (!strcmp(how, "entries")) block->tags[0].entries += 0xfffffffful;
        if (!strcmp(how, "all on")) for (int j = 0; j < NAMES; j++) block->tags[j].word = 1 - 2 * block->since;
        if (!strcmp(how, "future")) block->tags[0].word = (1ul << 62) + i, block->since = ~0ul;
        if (!strcmp(how, "many tags")) block->n_tags = ~0u, block->tags[i % 32].word += 2000;
        if (!strcmp(how, "since")) block->since = any(), block->tags[i % 32].word += 2000;
        if (!strcmp(how, "names nowhere")) block->names = any(), block->tags[i % 32].word += 200;
        if (!strcmp(how, "names without end")) memset(names, i ? 'x' : 0xff, 4096), block->tags[i % 32].word += 200;
        if (!strcmp(how, "names change")) names[0][13] = 'a' + i % 26, block->tags[i % 32].word += 200;
        if (!strcmp(how, "magic")) block->magic = i % 2 ? any() : HEADWAY_BLOCK_MAGIC_;
        if (!strcmp(how, "unmapped") && i == 1000) munmap(block, 8192);
        if (!strcmp(how, "half unmapped") && i == 1000) {
            struct headway_block *at = (void *)((char *)block + 4096 - 128);
            memmove(at, block, 128);
            munmap((char *)block + 4096, 4096);
            if (!tell(at)) return 1;
        }
        if (!strcmp(how, "protected") && i % 500 == 0) mprotect(block, 8192, i % 1000 ? PROT_READ : PROT_NONE);
        if (!strcmp(how, "after a check") && i == 1000) { /* the call that tells of a block ends a row of checks */
            char byte;
            int pair[2];
            socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
            make();
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
            if (!tell(block)) return 1;
        }
        if (!strcmp(how, "after a check") && i > 1000) block->tags[0].word += 2000, block->tags[0].entries++;
        if (!strcmp(how, "again")) if (!tell(block)) return 1;
        syscall(SYS_getppid);
        for (volatile int j = 0; j < 300; j++) ;
    }
    puts("0");
    return 0;
}
"""
)

BLOCKS, LIES = "region_blocks_unread", "region_times_impossible"


def measure_hostile(compile_c: Compiler, how: str) -> tuple[Thread, Ledger, int]:
    """It is not harmed: it ends well and says so."""
    ledger, (said,) = measure(compile_c("hostile", HOSTILE), how, allowed=(BLOCKS, LIES))
    thread = min(ledger.threads, key=lambda t: t.birth)
    if how not in ("addresses", "foreign"):
        assert count_of(thread, "kernel.getppid") == 3000
    for state in thread.states:
        assert re.fullmatch(r"[a-z_]+(\.[A-Za-z0-9_.-]+)?", state), state
    return thread, ledger, int(said)


@pytest.mark.parametrize("how", ["addresses", "foreign"])
def test_addresses_where_no_block_of_this_thread_is_are_refused_and_counted(compile_c: Compiler, how: str) -> None:
    thread, ledger, refused = measure_hostile(compile_c, how)
    assert ledger.losses[BLOCKS] == refused
    assert time_in(thread, "noneffective") == 0


@pytest.mark.parametrize("how", ["backwards", "garbage", "entries", "all on", "future"])
def test_times_that_cannot_be_are_cut_and_counted(compile_c: Compiler, how: str) -> None:
    thread, ledger, _ = measure_hostile(compile_c, how)
    assert ledger.losses[LIES] >= (1 if how in ("all on", "future") else 1000)
    assert time_in(thread, "noneffective") <= own_time(thread)
    for state, cell in thread.states.items():
        if state.startswith("noneffective"):
            assert (cell.count or 0) <= thread.span, "no region is shorter than a nanosecond"


@pytest.mark.parametrize("how", ["many tags", "since", "names nowhere", "names without end", "names change", "again"])
def test_blocks_that_make_no_sense_harm_nobody(compile_c: Compiler, how: str) -> None:
    thread, _, _ = measure_hostile(compile_c, how)
    marked = {state for state in thread.states if state.startswith("noneffective")}
    assert len(marked) <= 32
    if how in ("names nowhere", "names without end"):
        assert not any("lie" in state for state in marked)


def test_a_block_that_is_told_of_in_a_row_of_checks_is_read(compile_c: Compiler) -> None:
    thread, ledger, _ = measure_hostile(compile_c, "after a check")
    assert ledger.losses[BLOCKS] == 0
    assert count_of(thread, "noneffective.lie0") == 1999


@pytest.mark.parametrize("how", ["magic", "unmapped", "half unmapped", "protected"])
def test_blocks_that_cannot_be_read_any_more_are_counted(compile_c: Compiler, how: str) -> None:
    _, ledger, _ = measure_hostile(compile_c, how)
    assert ledger.losses[BLOCKS] >= 400


MANY_TAGS = (
    PROLOGUE
    + """
int main(void) { /* 8 processes with 30 tags each, all different */
    for (int i = 0; i < 8; i++) {
        if (fork()) continue;
        for (int j = 0; j < 30; j++) {
            char name[32];
            snprintf(name, sizeof name, "tag%d", 30 * i + j);
            headway_set_noneffective(headway_tag(name));
            work(100000);
            headway_clear_noneffective();
            syscall(SYS_getppid);
        }
        _exit(0);
    }
    while (wait(0) > 0) ;
    return 0;
}
"""
)


def test_more_tags_than_there_is_room_for_share_a_state(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("many_tags", MANY_TAGS), allowed=("tags_sharing_a_state",))
    states = {s for t in ledger.threads for s in t.states if s.startswith("noneffective.")}
    assert "noneffective.other" in states
    assert len(states) == 128
    assert ledger.losses["tags_sharing_a_state"] == 8 * 30 - 127
    assert lost(ledger, "tags_sharing_a_state") == {}
    everything = sum(count_of(t, s) for t in ledger.threads for s in states)
    assert everything == 8 * 30
