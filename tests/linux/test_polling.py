"""Polling (T8): programs that ask again and again for what is not there, and those that only look as if they did.

What a program does is told by itself: how often it asked in vain, and for how long by its own clock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.linux.options import MeasureOptions
from headway.model import Kind, Ledger, interrupt_time

from .measuring import count_of, measure, measure_intervals, not_polled, only, own_time, polled, time_in

pytestmark = pytest.mark.root

Compiler = Callable[[str, str], Path]

# For each name in argv a child of that name, which asks argv[1] times for what never comes; it says how they ended.
IN_VAIN = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define SPIN(check) do { for (long i = 0; i < n; i++) if (!(check)) return 1; return 0; } while (0)
static char much[65536];
static int spin(const char *how, long n, const char *self) {
    char byte, word[8];
    int pair[2], ends[2];
    struct timespec none = {0, 0};
    struct timeval no_time = {0, 0};
    struct epoll_event event = {.events = EPOLLIN};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (pipe2(ends, O_NONBLOCK)) return 1;
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (!strcmp(how, "epoll_wait")) SPIN(syscall(SYS_epoll_wait, set, &event, 1, 0) == 0);
    if (!strcmp(how, "epoll_pwait")) SPIN(syscall(SYS_epoll_pwait, set, &event, 1, 0, 0, 8) == 0);
    if (!strcmp(how, "epoll_pwait2")) SPIN(syscall(SYS_epoll_pwait2, set, &event, 1, &none, 0, 8) == 0);
    if (!strcmp(how, "poll")) SPIN(syscall(SYS_poll, &one, 1, 0) == 0);
    if (!strcmp(how, "ppoll")) SPIN(syscall(SYS_ppoll, &one, 1, &none, 0, 8) == 0);
    if (!strcmp(how, "select")) {
        for (long i = 0; i < n; i++) {
            fd_set some;
            FD_ZERO(&some);
            FD_SET(pair[0], &some);
            if (syscall(SYS_select, pair[0] + 1, &some, 0, 0, &no_time)) return 1;
        }
        return 0;
    }
    if (!strcmp(how, "recvfrom")) SPIN(recv(pair[0], &byte, 1, MSG_DONTWAIT) < 0);
    if (!strcmp(how, "recvmsg")) SPIN(recvmsg(pair[0], &message, MSG_DONTWAIT) < 0);
    if (!strcmp(how, "read_pipe")) SPIN(read(ends[0], &byte, 1) < 0);
    if (!strcmp(how, "readv")) SPIN(readv(ends[0], &part, 1) < 0);
    if (!strcmp(how, "write")) {
        while (write(ends[1], much, sizeof much) > 0) ;
        SPIN(write(ends[1], &byte, 1) < 0);
    }
    if (!strcmp(how, "read_event")) {
        int fd = eventfd(0, EFD_NONBLOCK);
        SPIN(read(fd, word, 8) < 0);
    }
    if (!strcmp(how, "read_timer")) {
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        SPIN(read(fd, word, 8) < 0);
    }
    if (!strcmp(how, "read_file")) { /* the end of a growing file */
        int fd = open("/tmp", O_TMPFILE | O_RDWR | O_NONBLOCK, 0600);
        SPIN(read(fd, &byte, 1) == 0);
    }
    if (!strcmp(how, "sched_yield")) SPIN(sched_yield() == 0);
    if (!strcmp(how, "io_getevents")) {
        aio_context_t context = 0;
        struct io_event done;
        if (syscall(SYS_io_setup, 1, &context)) return 77;
        SPIN(syscall(SYS_io_getevents, context, 0L, 1L, &done, &none) == 0);
    }
    if (!strcmp(how, "accept4")) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr here = {AF_UNIX, ""};
        if (bind(fd, &here, 2) || listen(fd, 1)) return 1;
        SPIN(accept4(fd, 0, 0, 0) < 0);
    }
    if (!strcmp(how, "wait4")) {
        pid_t child = fork();
        if (!child) { pause(); _exit(0); }
        for (long i = 0; i < n; i++) if (waitpid(child, 0, WNOHANG)) return 1;
        kill(child, 9);
        return waitpid(child, 0, 0) != child;
    }
    if (!strcmp(how, "flock")) {
        int mine = open(self, O_RDONLY), other = open(self, O_RDONLY);
        if (flock(other, LOCK_EX)) return 1;
        SPIN(flock(mine, LOCK_EX | LOCK_NB) < 0);
    }
    if (!strcmp(how, "sigtimedwait")) {
        unsigned long signals = 1 << 9;
        SPIN(syscall(SYS_rt_sigtimedwait, &signals, 0, &none, 8) < 0);
    }
    return 77;
}
int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            prctl(PR_SET_NAME, argv[i]);
            _exit(spin(argv[i], atol(argv[1]), argv[0]));
        }
        waitpid(child, &status, 0);
        printf("%d ", status >> 8);
    }
    return 0;
}
"""

STATES = {
    "epoll_wait": "poll.epoll_wait.epoll",
    "epoll_pwait": "poll.epoll_pwait.epoll",
    "epoll_pwait2": "poll.epoll_pwait2.epoll",
    "poll": "poll.poll",
    "ppoll": "poll.ppoll",
    "select": "poll.select",
    "recvfrom": "poll.recvfrom.socket",
    "recvmsg": "poll.recvmsg.socket",
    "read_pipe": "poll.read.pipe",
    "readv": "poll.readv.pipe",
    "write": "poll.write.pipe",
    "read_event": "poll.read.event",
    "read_timer": "poll.read.event",
    "read_file": "poll.read.file",
    "sched_yield": "poll.sched_yield",
    "io_getevents": "poll.io_getevents",
    "accept4": "poll.accept4.socket",
    "wait4": "poll.wait4",
    "flock": "poll.flock.file",
    "sigtimedwait": "poll.rt_sigtimedwait",
}
ASKED = 50_000


@pytest.fixture(scope="module")
def in_vain(compile_c: Compiler) -> tuple[Ledger, dict[str, str]]:
    """One measurement of all of them, and how each ended."""
    ledger, said = measure(compile_c("in_vain", IN_VAIN), str(ASKED), *STATES)
    return ledger, dict(zip(STATES, said, strict=True))


@pytest.mark.parametrize("how", STATES)
def test_asking_in_vain_is_polling_and_each_time_is_counted(in_vain: tuple[Ledger, dict[str, str]], how: str) -> None:
    ledger, ended = in_vain
    if ended[how] == "77":
        pytest.skip("this kernel has no such call")
    assert ended[how] == "0"
    thread = max((t for t in ledger.threads if t.name == how), key=own_time)  # one has a child that sleeps
    state = STATES[how]
    call = "kernel." + state.split(".")[1]
    assert {s for s in thread.states if s.startswith("poll")} == {state}
    # Interrupts and other threads break rows, whose first check stands alone then: the more the busier the machine.
    assert time_in(thread, call, "user") < 0.25 * time_in(thread, state, call, "user", "overhead")
    assert count_of(thread, state) > 0.95 * ASKED
    assert 0 <= count_of(thread, state) + count_of(thread, call) - ASKED <= 5


# What a program says of itself: `stamp` adds what passed since the last one, unless something else came in between.
PROLOGUE = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void work(long ns) { for (long end = now() + ns; now() < end;) ; }
static void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}
"""

SHARE = (
    PROLOGUE
    + """
int main(int argc, char **argv) { /* rounds of checks in vain with pauses, then work; ns */
    int k = atoi(argv[1]), pair[2];
    long pause = atol(argv[2]), share = atol(argv[3]), polled = 0, all = 0;
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 1500; i++) {
        long start = now(), last = start, t;
        for (int j = 0; j < k; j++) {
            if (recv(pair[0], &byte, 1, MSG_DONTWAIT) > 0) return 1;
            work(pause);
            t = now();
            if (t - last < 20000) polled += t - last, all += t - last; /* else it was interrupted, and a new row */
            last = t;
        }
        if (send(pair[1], &byte, 1, 0) != 1 || recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) return 1;
        work(share);
    }
    printf("%ld\\n", polled);
    return 0;
}
"""
)


@pytest.mark.parametrize(("k", "pause", "share"), [(2, 3000, 100_000), (5, 8000, 40_000), (40, 1000, 40_000)])
def test_the_time_of_a_known_share_of_checks_in_vain(compile_c: Compiler, k: int, pause: int, share: int) -> None:
    ledger, (said,) = measure(compile_c("share", SHARE), str(k), str(pause), str(share))
    thread = only(ledger)
    iopi, truth = thread.times()[Kind.POLL], int(said)
    overhead = thread.times()[Kind.OVERHEAD]
    margin = 0.05 * (own_time(thread) + overhead)
    assert truth - overhead - margin < iopi < truth + margin
    assert count_of(thread, "poll.recvfrom.socket") > 0.9 * 1500 * k


UNTIL_READY = (
    PROLOGUE
    + """
int main(void) { /* asks a timer until it has run off, then works */
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    long in_vain = 0, polled = 0;
    unsigned long times;
    for (int i = 0; i < 1000; i++) {
        struct itimerspec soon = {.it_value = {0, 30000}};
        timerfd_settime(timer, 0, &soon, 0);
        long last = now(), t;
        while (read(timer, &times, 8) < 0) {
            t = now();
            if (t - last < 20000) polled += t - last;
            last = t;
            in_vain++;
        }
        work(60000);
    }
    printf("%ld %ld\\n", in_vain, polled);
    return 0;
}
"""
)


def test_the_check_that_finds_something_is_progress_and_what_was_before_it_is_not(compile_c: Compiler) -> None:
    ledger, (in_vain, polled_) = measure(compile_c("until_ready", UNTIL_READY))
    thread = only(ledger)
    state = thread.states["poll.read.event"]
    assert (state.count or 0) <= int(in_vain)
    assert (state.count or 0) > 0.95 * int(in_vain)
    assert count_of(thread, "kernel.read") >= 1000, "each of the timers was found to have run off once"
    truth, overhead = int(polled_), thread.times()[Kind.OVERHEAD]
    margin = 0.05 * (own_time(thread) + overhead)
    assert truth - overhead - margin < state.time < truth + margin


ALWAYS_THERE = (
    PROLOGUE
    + """
int main(void) {
    static char many[60000];
    int ends[2];
    char byte;
    if (pipe2(ends, O_NONBLOCK) || fcntl(ends[1], F_SETPIPE_SZ, 1 << 18) < 0) return 1;
    for (int round = 0; round < 3; round++) {
        if (write(ends[1], many, sizeof many) != sizeof many) return 1;
        for (int i = 0; i < 60000; i++) if (read(ends[0], &byte, 1) != 1) return 1;
    }
    return 0;
}
"""
)


def test_who_always_finds_something_does_not_poll(compile_c: Compiler) -> None:
    thread = only(measure(compile_c("always_there", ALWAYS_THERE))[0])
    assert polled(thread) == 0
    assert count_of(thread, "kernel.read") >= 180_000


NOT_POLLING = (
    PROLOGUE
    + """
int main(int argc, char **argv) {
    const char *how = argv[1];
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!strcmp(how, "other calls")) /* something is done after each check */
        for (int i = 0; i < 100000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); syscall(SYS_getppid); }
    if (!strcmp(how, "long gaps")) /* what comes next has nothing to do with the last check */
        for (int i = 0; i < 5000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); work(60000); }
    if (!strcmp(how, "one of two")) /* of two things, the second is always there */
        for (int i = 0; i < 50000; i++) {
            if (send(pair[1], &byte, 1, 0) != 1) return 1;
            recv(pair[1], &byte, 1, MSG_DONTWAIT);
            if (recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) return 1;
        }
    return 0;
}
"""
)


@pytest.mark.parametrize("how", ["other calls", "long gaps", "one of two"])
def test_checks_in_vain_that_are_not_polling(compile_c: Compiler, how: str) -> None:
    thread = only(measure(compile_c("not_polling", NOT_POLLING), how)[0])
    assert polled(thread) < 0.02
    assert count_of(thread, "kernel.recvfrom") >= 5000


EVENT_LOOP = (
    PROLOGUE
    + """
int main(int argc, char **argv) { /* epoll over eight sockets, level- or edge-triggered; a child sends */
    int edge = !strcmp(argv[1], "edge"), pair[8][2], set = epoll_create1(0), left = 4000;
    char bytes[64];
    for (int i = 0; i < 8; i++) {
        struct epoll_event e = {.events = EPOLLIN | (edge ? EPOLLET : 0), .data.fd = i};
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair[i]);
        epoll_ctl(set, EPOLL_CTL_ADD, pair[i][0], &e);
    }
    if (!fork()) {
        for (int i = 0; i < left; i++) {
            while (send(pair[i % 8][1], bytes, 64, 0) < 0) usleep(100);
            if (i % 16 == 15) usleep(300);
        }
        _exit(0);
    }
    while (left) {
        struct epoll_event some[8];
        int n = epoll_wait(set, some, 8, -1);
        for (int i = 0; i < n; i++) {
            do {
                if (recv(pair[some[i].data.fd][0], bytes, 64, 0) < 0) break;
                left--;
                work(20000);
            } while (edge);
        }
    }
    wait(0);
    return 0;
}
"""
)


@pytest.mark.parametrize("how", ["level", "edge"])
def test_an_event_loop_does_not_poll(compile_c: Compiler, how: str) -> None:
    ledger, _ = measure(compile_c("event_loop", EVENT_LOOP), how)
    loop = min(ledger.threads, key=lambda t: t.birth)
    assert count_of(loop, "kernel.recvfrom") >= 4000
    assert polled(loop) < 0.02


def test_an_asyncio_program_with_callbacks_does_not_poll() -> None:
    code = (
        "import asyncio,time\n"
        "async def main():\n"
        " for i in range(2000):\n"
        "  end=time.perf_counter()+100e-6\n"
        "  while time.perf_counter()<end: pass\n"
        "  await asyncio.sleep(0)\n"
        "asyncio.run(main())"
    )
    thread = only(measure(sys.executable, "-c", code)[0])
    assert count_of(thread, "kernel.epoll_wait") > 1900, "it looks for events between two callbacks, without waiting"
    assert polled(thread) < 0.02


def test_python_that_spins_on_select_polls() -> None:
    code = "import select,socket\na,b=socket.socketpair()\nfor i in range(100000): select.select([a],[],[],0)"
    thread = only(measure(sys.executable, "-c", code)[0])
    call = next(s for s in ("select", "pselect6") if f"poll.{s}" in thread.states)  # as libc makes it
    assert count_of(thread, f"poll.{call}") > 90_000
    assert not_polled(thread) < 0.5, "beside starting Python"
    assert count_of(thread, f"kernel.{call}") < 5_000


MANY_SOCKETS = (
    PROLOGUE
    + """
int main(void) { /* asks each of 64 sockets in turn */
    static int pair[64][2];
    char byte;
    for (int i = 0; i < 64; i++) socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]);
    for (int round = 0; round < 2000; round++)
        for (int i = 0; i < 64; i++) if (recv(pair[i][0], &byte, 1, MSG_DONTWAIT) >= 0) return 1;
    return 0;
}
"""
)


def test_going_round_many_things_that_are_not_ready_is_polling(compile_c: Compiler) -> None:
    thread = only(measure(compile_c("many_sockets", MANY_SOCKETS))[0])
    assert not_polled(thread) < 0.1
    assert count_of(thread, "poll.recvfrom.socket") > 0.95 * 128_000


TOGETHER = (
    PROLOGUE
    + """
static const char *how;
static void *spin(void *p) {
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (long end = now() + 400000000L; now() < end;) {
        if (*how == 'y') sched_yield();
        else recv(pair[0], &byte, 1, MSG_DONTWAIT);
    }
    return p;
}
int main(int argc, char **argv) { /* two threads that poll, on one processor */
    pthread_t t[2];
    how = argv[1];
    stay_on(sched_getcpu());
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, spin, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0;
}
"""
)


def test_two_threads_that_yield_to_each_other_poll(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("together", TOGETHER), "yield")
    for thread in (t for t in ledger.threads if t.tid != t.pid):
        assert not_polled(thread) < 0.2
        assert count_of(thread, "ready") > 1000
        assert count_of(thread, "poll.sched_yield") > 1000


def test_a_thread_that_is_preempted_while_it_polls_goes_on_polling(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("together", TOGETHER), "receive")
    for thread in (t for t in ledger.threads if t.tid != t.pid):
        assert not_polled(thread) < 0.1
        assert count_of(thread, "ready") > 5
        assert thread.states["ready"].time > 50_000_000
        assert not any(s.startswith(("wait.poll", "poll.other")) for s in thread.states)


def test_intervals_that_cut_rows_in_two_add_up(compile_c: Compiler) -> None:
    code = (
        "import socket,sys,time\na,b=socket.socketpair(); a.setblocking(False)\nend=time.monotonic()+.8\nn=0\n"
        "while time.monotonic()<end:\n"
        " try: a.recv(1)\n"
        " except BlockingIOError:\n"
        "  n+=1\n"
        "  if n%5==0: b.send(b'x')\n"
        "open(sys.argv[1],'w').write(str(n))"
    )
    read, write = os.pipe()
    os.set_inheritable(write, True)
    with os.fdopen(read) as output:
        whole, parts = measure_intervals(0.005, compile_c("share", SHARE), "4", "2000", "4000")
        again, others = measure_intervals(0.02, sys.executable, "-c", code, f"/proc/{os.getpid()}/fd/{write}")
        os.close(write)
        n = int(output.read())
    assert len(others) > 5
    assert len(parts) > 1
    for ledger in (whole, again):
        assert time_in(only(ledger), "poll.recvfrom") > 0
    asked, found = count_of(only(again), "poll.recvfrom.socket"), n // 5
    assert 0.9 * n < asked <= n
    assert n + found - 1 <= asked + count_of(only(again), "kernel.recvfrom") <= n + found, "each is counted once"


NOTHING_ELSE = (
    PROLOGUE
    + """
int main(void) {
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 500000; i++) if (recv(pair[0], &byte, 1, MSG_DONTWAIT) >= 0) return 1;
    return 0;
}
"""
)


def test_whole_intervals_of_nothing_but_polling(compile_c: Compiler) -> None:
    whole, parts = measure_intervals(0.005, compile_c("nothing_else", NOTHING_ELSE))
    assert len(parts) > 5
    assert count_of(only(whole), "poll.recvfrom.socket") + count_of(only(whole), "kernel.recvfrom") == 500_000


ENDS = (
    PROLOGUE
    + """
static int pair[2];
static char byte;
static void spin(long ns) { for (long end = now() + ns; now() < end;) recv(pair[0], &byte, 1, MSG_DONTWAIT); }
static void *thread(void *p) { spin(20000000L); syscall(SYS_exit, 0); return p; }
int main(int argc, char **argv) { /* ends, each way, in the midst of a row */
    pthread_t t;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    if (!fork()) { spin(20000000L); raise_(9); }
    wait(0);
    if (!fork()) { spin(20000000L); *(volatile int *)8 = 1; }
    wait(0);
    pid_t child = fork();
    if (!child) spin(60000000000L);
    usleep(100000);
    kill_(child);
    wait(0);
    if (!fork()) { spin(20000000L); execl("/bin/true", "executed", (char *)0); }
    wait(0);
    spin(20000000L);
    return 0;
}
""".replace("raise_(9)", "syscall(SYS_kill, getpid(), 9)").replace("kill_(child)", "syscall(SYS_kill, child, 9)")
)


def test_who_ends_or_executes_another_program_while_it_polls(compile_c: Compiler) -> None:
    ledger, _ = measure(compile_c("ends", ENDS))
    assert len(ledger.threads) == 6
    for thread in ledger.threads:
        assert thread.end is not None
        assert count_of(thread, "poll.recvfrom.socket") > 50
        assert time_in(thread, "poll.recvfrom.socket") > 0
    executed = only(ledger, "true")
    assert executed.states["user"].count, "the new program does not poll"


SWALLOWED = (
    PROLOGUE
    + """
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
int main(void) { /* a fault whose signal a debugger keeps back, between two checks in vain */
    int pair[2], status;
    char byte, *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
    pid_t child = fork();
    if (!child) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        for (int i = 0; i < 20; i++) {
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
            __asm__ volatile("movb $1, (%0)" : : "a"(8L) : "memory");
            work(5000000);
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
        }
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        registers.rax = (long)page;
        ptrace(PTRACE_SETREGS, child, 0, &registers);
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    return status;
}
""".replace("    int pair[2], status;\n    char byte", "    int status;\n    char byte")
)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the registers are those of x86-64")
def test_a_fault_without_an_end_between_two_checks_is_not_taken_from_user_code(
    compile_c: Compiler, tmp_path: Path
) -> None:
    (tmp_path / "checks.toml").write_text("gap_us = 0\n")
    ledger, _ = measure(compile_c("swallowed", SWALLOWED), options=MeasureOptions(checks=str(tmp_path / "checks.toml")))
    child = max(ledger.threads, key=lambda t: t.birth)
    disturbed = time_in(child, "ready", "stolen", "overhead", "unknown") + interrupt_time(child.states)
    assert time_in(child, "poll.", "kernel.fault", "user") > 20 * 4_000_000 - disturbed
