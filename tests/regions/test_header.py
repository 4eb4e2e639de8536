"""headway.h in real programs: what a region's block holds after they did what they say."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.regions.conftest import Compile

REPORT = r"""
#include <headway.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static inline void spin(uint64_t ns) { uint64_t end = headway_now_() + ns; while (headway_now_() < end) {} }
static inline void report_block(const char *title, struct headway_block *b) {
    printf("%s %u %u %u %u %u\n", title, b->tid, b->depth, b->open, b->errors, b->n_tags);
    for (uint32_t i = 0; i < b->n_tags; i++)
        if (b->tags[i].word || b->tags[i].entries)
            printf("- %s %lld %llu\n", headway_arena_->names[i], (long long)b->tags[i].word,
                   (unsigned long long)b->tags[i].entries);
    fflush(stdout);
}
static inline void report(const char *title) { headway_depth(); report_block(title, headway_self_); }
"""


@dataclass
class Reported:
    """A block: times in ns of words that are closed, -1 for one that is open."""

    tid: int
    depth: int
    open: int
    errors: int
    n_tags: int
    times: dict[str, int]
    entries: dict[str, int]


def run(program: Path, *arguments: str) -> tuple[dict[str, Reported], dict[str, int]]:
    """The blocks that a program reports, and its other figures (``name=number``)."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=60)
    blocks: dict[str, Reported] = {}
    figures = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "-":
            block = blocks[next(reversed(blocks))]
            block.times[words[1]] = -1 if int(words[2]) & 1 else int(words[2]) // 2
            block.entries[words[1]] = int(words[3])
        elif "=" in line:
            name, _, number = line.partition("=")
            figures[name] = int(number)
        else:
            tid, depth, opened, errors, n_tags = map(int, words[1:])
            blocks[words[0]] = Reported(tid, depth, opened, errors, n_tags, {}, {})
    return blocks, figures


EVERY_LANGUAGE = [
    ("gcc", "c", "-std=c99"),
    ("gcc", "c", "-std=gnu11"),
    ("gcc", "c++", "-std=c++11"),
    ("gcc", "c++", "-std=c++20"),
    ("clang", "c", "-std=c99"),
    ("clang", "c++", "-std=c++11"),
]


@pytest.mark.parametrize(("compiler", "language", "standard"), EVERY_LANGUAGE)
def test_one_header_for_every_language(compile_marked: Compile, compiler: str, language: str, standard: str) -> None:
    text = r"""
#include <headway.h>
#include <stdio.h>
static int leave(int how) {
    while (1) {
        HEADWAY_NONEFFECTIVE("outer") {
            HEADWAY_POLL("inner") {
                if (how == 0) return 1;
                if (how == 1) break;
            }
            if (how == 2) break;
        }
        return 0;
    }
}
int main(void) {
    uint32_t i;
    headway_tag_t bare = headway_tag("bare");
    headway_set_noneffective(bare);
    if (headway_depth() != 1) return 1;
    headway_clear_noneffective();
    leave(0); leave(1); leave(2); leave(3);
    if (headway_depth()) return 2;
    for (i = 0; i < headway_self_->n_tags; i++)
        printf("%s=%lu\n", headway_arena_->names[i], (unsigned long)headway_self_->tags[i].entries);
    return headway_self_->errors ? 3 : 0;
}
"""
    _, entries = run(compile_marked(text, flags=(standard,), compiler=compiler, language=language))
    assert entries == {
        "noneffective": 0,
        "noneffective.bare": 1,
        "noneffective.outer": 4,
        "poll.inner": 4,
    }


@pytest.mark.parametrize(
    "target",
    ["aarch64-linux-gnu", "riscv64-linux-musl", "s390x-linux-gnu", "x86-linux-gnu", "x86_64-windows-gnu"],
)
def test_it_compiles_for_other_machines(compile_marked: Compile, target: str) -> None:
    text = """
#include <headway.h>
int main(void) {
    HEADWAY_NONEFFECTIVE("a") { HEADWAY_POLL("b") { headway_set_noneffective(headway_tag("c")); } }
    headway_clear_noneffective();
    headway_restore(0);
    return (int)(headway_depth() + headway_poll_tag("d"));
}
"""
    compile_marked(text, flags=("-c", "-target", target), compiler="clang")


def test_cpp_scopes_end_their_regions_when_something_is_thrown(compile_marked: Compile) -> None:
    text = r"""
#include <headway.h>
static void deep(int n) {
    headway::noneffective region{"deep"};
    if (!n) throw 1;
    headway::poll inner;
    deep(n - 1);
}
int main() {
    try { deep(5); } catch (int) {}
    if (headway_depth() || headway_self_->errors) return 1;
    static const headway_tag_t tag = headway_tag("kept");
    headway::noneffective region{tag};
    return headway_depth() == 1 ? 0 : 2;
}
"""
    run(compile_marked(text, language="c++", flags=("-std=c++11",)))


def test_a_region_is_charged_while_it_is_the_innermost(compile_marked: Compile) -> None:
    text = (
        REPORT
        + r"""
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    uint64_t t[8];
    headway_depth();
    t[0] = headway_now_(); headway_set_noneffective(a); t[1] = headway_now_(); spin(2000000);
    t[2] = headway_now_(); headway_set_noneffective(b); t[3] = headway_now_(); spin(3000000);
    headway_set_noneffective(b); spin(1000000); headway_clear_noneffective();
    t[4] = headway_now_(); headway_clear_noneffective(); t[5] = headway_now_(); spin(1000000);
    t[6] = headway_now_(); headway_clear_noneffective(); t[7] = headway_now_(); spin(1000000);
    report("end");
    printf("a_least=%llu\n", (unsigned long long)(t[2] - t[1] + t[6] - t[5]));
    printf("a_most=%llu\n", (unsigned long long)(t[3] - t[0] + t[7] - t[4]));
    printf("b_least=%llu\n", (unsigned long long)(t[4] - t[3]));
    printf("b_most=%llu\n", (unsigned long long)(t[5] - t[2]));
    return 0;
}
"""
    )
    blocks, clock = run(compile_marked(text))
    end = blocks["end"]
    assert clock["a_least"] <= end.times["noneffective.a"] <= clock["a_most"]
    assert clock["b_least"] <= end.times["noneffective.b"] <= clock["b_most"]
    assert end.entries == {"noneffective.a": 1, "noneffective.b": 1}, (
        "coming back is not entering, nor is the same again"
    )
    assert (end.depth, end.open, end.errors) == (0, 0, 0)


STORM = (
    "#define _GNU_SOURCE\n"
    + REPORT
    + r"""
#include <signal.h>
#include <sys/time.h>
static headway_tag_t sig, sig2;
static volatile uint64_t signals, least, most;
static void handler(int number) {
    (void)number;
    uint64_t a = headway_now_();
    headway_set_noneffective(sig);
    uint64_t b = headway_now_();
    spin(5000);
    headway_set_noneffective(sig2); headway_clear_noneffective();
    uint64_t c = headway_now_();
    headway_clear_noneffective();
    least += c - b; most += headway_now_() - a; signals++;
}
static int charged(headway_tag_t tag) {
    return HEADWAY_LOAD_(headway_self_->open) == tag + 1 && HEADWAY_LOAD_(headway_self_->tags[tag].word) & 1;
}
int main(void) {
    uint64_t wrong = 0;
    headway_tag_t all = headway_tag("all"), x = headway_tag("x"), y = headway_tag("y");
    sig = headway_tag("signal"); sig2 = headway_tag("signal2");
    uint64_t rounds = 0, begin, end, first, last, away;
    struct timespec ran, stopped;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    uint64_t sum = 0;
    headway_depth();
    first = headway_now_();
    headway_set_noneffective(all);
    begin = headway_now_();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    struct itimerval every = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    while (signals < 10000 || rounds < 1000000) {
        headway_set_noneffective(x); wrong += !charged(x);
        headway_set_noneffective(y); wrong += !charged(y); headway_clear_noneffective();
        wrong += !charged(x); headway_clear_noneffective();
        wrong += !charged(all);
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    spin(1000000);
    end = headway_now_();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &stopped);
    away = end - begin - ((stopped.tv_sec - ran.tv_sec) * 1000000000LL + stopped.tv_nsec - ran.tv_nsec);
    headway_clear_noneffective();
    last = headway_now_();
    report("end");
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) sum += headway_self_->tags[i].word / 2;
    printf("wrong=%llu\n", (unsigned long long)wrong);
    printf("rounds=%llu\n", (unsigned long long)rounds);
    printf("signals=%llu\n", (unsigned long long)signals);
    printf("least=%llu\n", (unsigned long long)least);
    printf("most=%llu\n", (unsigned long long)most);
    printf("sum=%llu\n", (unsigned long long)sum);
    printf("inside=%llu\n", (unsigned long long)(end - begin));
    printf("outside=%llu\n", (unsigned long long)(last - first));
    printf("away=%llu\n", (unsigned long long)away);
    return 0;
}
"""
)


def test_signals_that_mark_regions_in_the_midst_of_a_mark_leave_it_right(compile_marked: Compile) -> None:
    """All time is in some region: what they got adds up to the time that passed, and no handler's is charged twice."""
    blocks, figures = run(compile_marked(STORM, flags=("-std=gnu11",)))
    end = blocks["end"]
    assert (end.depth, end.open, end.errors) == (0, 0, 0)
    assert all(spent >= 0 for spent in end.times.values()), "every word is closed"
    assert figures["wrong"] == 0, "what was set is what is charged"
    assert end.entries["noneffective.signal"] == end.entries["noneffective.signal2"] == figures["signals"]
    assert end.entries["noneffective.x"] == end.entries["noneffective.y"] == figures["rounds"]
    in_signals = end.times["noneffective.signal"] + end.times["noneffective.signal2"]
    assert figures["least"] <= in_signals <= figures["most"]
    assert figures["sum"] <= figures["outside"], "nothing was charged twice"
    lost = figures["inside"] - figures["sum"]
    assert lost - figures["away"] <= figures["inside"] // 20, (
        "only the delivery of a signal just between two regions is charged to neither, and what others ran before it"
    )


STEP = (
    "#define _GNU_SOURCE\n"
    + REPORT
    + r"""
#include <signal.h>
static headway_tag_t sig, sig2;
static volatile uint64_t steps, least, most, wrong;
static int charged(headway_tag_t tag) {
    return HEADWAY_LOAD_(headway_self_->open) == tag + 1 && HEADWAY_LOAD_(headway_self_->tags[tag].word) & 1;
}
static int odd(void) {
    int n = 0;
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) n += headway_self_->tags[i].word & 1;
    return n;
}
static void handler(int number) {
    (void)number;
    uint64_t a = headway_now_();
    wrong += odd() > 1;
    headway_set_noneffective(sig);
    uint64_t b = headway_now_();
    wrong += !charged(sig);
    headway_set_noneffective(sig); headway_set_noneffective(sig2);
    wrong += !charged(sig2) || odd() != 1;
    headway_clear_noneffective(); headway_clear_noneffective();
    wrong += !charged(sig);
    uint64_t c = headway_now_();
    headway_clear_noneffective();
    least += c - b; most += headway_now_() - a; steps++;
}
static inline void trap(void) { __asm__ __volatile__("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc"); }
static inline void run(void) { __asm__ __volatile__("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc"); }
#define SET(tag) do { trap(); headway_set_noneffective(tag); run(); wrong += !charged(tag) || odd() != 1; } while (0)
#define CLEAR(tag) do { trap(); headway_clear_noneffective(); run(); wrong += !charged(tag) || odd() != 1; } while (0)
int main(void) {
    headway_tag_t all = headway_tag("all"), x = headway_tag("x"), y = headway_tag("y");
    sig = headway_tag("signal"); sig2 = headway_tag("signal2");
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGTRAP, &action, 0);
    uint64_t sum = 0, first, last;
    headway_depth();
    first = headway_now_();
    trap(); headway_set_noneffective(all); run();
    for (int i = 0; i < 20; i++) {
        SET(x); SET(x); SET(y); CLEAR(x); CLEAR(x); SET(x); SET(y); CLEAR(x); CLEAR(x); CLEAR(all);
        SET(y); SET(all); SET(y);
        headway_clear_noneffective();
        trap(); headway_restore(1); run();
        wrong += !charged(all) || headway_depth() != 1;
    }
    trap(); headway_clear_noneffective(); run();
    last = headway_now_();
    wrong += odd() || headway_self_->open;
    report("end");
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) sum += headway_self_->tags[i].word / 2;
    printf("wrong=%llu\n", (unsigned long long)wrong);
    printf("steps=%llu\n", (unsigned long long)steps);
    printf("least=%llu\n", (unsigned long long)least);
    printf("most=%llu\n", (unsigned long long)most);
    printf("sum=%llu\n", (unsigned long long)sum);
    printf("outside=%llu\n", (unsigned long long)(last - first));
    return 0;
}
"""
)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="steps through instructions by the trap flag of x86")
@pytest.mark.parametrize("optimise", ["-O0", "-O2"])
def test_a_signal_after_every_single_instruction_of_a_mark_leaves_it_right(
    compile_marked: Compile, optimise: str
) -> None:
    """The processor itself raises a signal after each instruction, and each handler marks regions of its own."""
    blocks, figures = run(compile_marked(STEP, flags=("-std=gnu11", "-mno-red-zone", optimise)))
    end = blocks["end"]
    assert figures["steps"] > 5000
    assert figures["wrong"] == 0, "what was set is what is charged, and nothing else"
    assert (end.depth, end.open, end.errors) == (0, 0, 0)
    assert all(spent >= 0 for spent in end.times.values()), "every word is closed"
    assert end.entries["noneffective.signal"] == end.entries["noneffective.signal2"] == figures["steps"]
    assert (end.entries["noneffective.x"], end.entries["noneffective.y"]) == (20, 80)
    in_signals = end.times["noneffective.signal"] + end.times["noneffective.signal2"]
    assert figures["least"] <= in_signals <= figures["most"]
    assert figures["sum"] <= figures["outside"], "nothing was charged twice"


def test_unbalanced_and_too_deep_regions_are_counted_and_do_no_harm(compile_marked: Compile) -> None:
    text = (
        REPORT
        + r"""
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    headway_clear_noneffective();
    headway_clear_noneffective();
    report("cleared");
    for (int i = 0; i < 16; i++) headway_set_noneffective(a);
    headway_set_noneffective(b);
    headway_set_noneffective(b);
    report("deep");
    for (int i = 0; i < 18; i++) headway_clear_noneffective();
    report("back");
    headway_set_noneffective(4000000000u);
    headway_clear_noneffective();
    report("nonsense");
    return 0;
}
"""
    )
    blocks, _ = run(compile_marked(text))
    assert (blocks["cleared"].depth, blocks["cleared"].errors) == (0, 2)
    assert (blocks["deep"].depth, blocks["deep"].errors, blocks["deep"].open) == (18, 4, 2)
    assert (blocks["back"].depth, blocks["back"].errors, blocks["back"].open) == (0, 4, 0)
    assert blocks["back"].entries == {"noneffective.a": 1}, "the innermost stays what it was"
    assert blocks["nonsense"].entries == {"noneffective": 1, "noneffective.a": 1}


def test_a_long_jump_restores_the_depth(compile_marked: Compile) -> None:
    text = (
        REPORT
        + r"""
#include <setjmp.h>
static jmp_buf back;
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    headway_set_noneffective(a);
    uint32_t depth = headway_depth();
    if (!setjmp(back)) {
        for (int i = 0; i < 20; i++) headway_set_noneffective(b);
        longjmp(back, 1);
    }
    headway_restore(depth);
    report("jumped");
    headway_restore(7);
    headway_restore(0);
    report("end");
    return 0;
}
"""
    )
    blocks, _ = run(compile_marked(text, flags=("-Wno-clobbered",)))
    assert (blocks["jumped"].depth, blocks["jumped"].open) == (1, 2)
    assert (blocks["end"].depth, blocks["end"].open) == (0, 0)


def test_tags_are_cleaned_shared_and_limited(compile_marked: Compile) -> None:
    text = (
        REPORT
        + r"""
int main(void) {
    char name[16];
    printf("same=%d\n", headway_tag("p") == headway_tag("p"));
    printf("apart=%d\n", headway_tag("p") != headway_poll_tag("p"));
    printf("empty=%d\n", headway_tag("") == 0 && headway_tag(0) == 0);
    headway_tag("sp ace/\xc3\xa4\n"); headway_tag("0123456789012345678901234567890123456789"); headway_poll_tag("");
    for (uint32_t i = 0; i < headway_arena_->n_tags; i++) printf("%s=%u\n", headway_arena_->names[i], i);
    for (int i = 0; i < 40; i++) { snprintf(name, sizeof name, "t%d", i); headway_tag(name); }
    printf("n=%u\n", headway_arena_->n_tags);
    printf("refused=%u\n", headway_arena_->refused_tags);
    printf("%s=%u\n", headway_arena_->names[31], headway_tag("t39"));
    return 0;
}
"""
    )
    _, figures = run(compile_marked(text))
    assert figures == {
        "same": 1,
        "apart": 1,
        "empty": 1,
        "noneffective": 0,
        "noneffective.p": 1,
        "poll.p": 2,
        "noneffective.sp_ace____": 3,
        "noneffective.012345678901234567": 4,
        "poll": 5,
        "n": 32,
        "refused": 15,
        "noneffective.other": 31,
    }


def test_the_first_use_keeps_errno_and_signals_as_they_are(compile_marked: Compile) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + REPORT
        + r"""
#include <signal.h>
#include <sys/resource.h>
int main(int n, char **arguments) {
    sigset_t before, after;
    (void)arguments;
    if (n > 1) { struct rlimit none = {1 << 20, 1 << 20}; setrlimit(RLIMIT_AS, &none); }
    sigemptyset(&before); sigaddset(&before, SIGUSR1); sigprocmask(SIG_SETMASK, &before, 0);
    errno = 1234;
    headway_tag_t tag = headway_tag("a");
    int here = errno;
    headway_set_noneffective(tag);
    HEADWAY_POLL("p") {}
    uint32_t depth = headway_depth();
    headway_clear_noneffective();
    headway_clear_noneffective();
    headway_restore(0);
    int kept = errno == 1234 && here == 1234;
    printf("depth=%u\n", depth);
    printf("kept=%d\n", kept);
    sigprocmask(SIG_SETMASK, 0, &after);
    printf("mask=%d\n", sigismember(&after, SIGUSR1) && !sigismember(&after, SIGUSR2));
    printf("arena=%d\n", (uintptr_t)headway_arena_ > 1);
    return 0;
}
"""
    )
    program = compile_marked(text)
    assert run(program)[1] == {"depth": 1, "kept": 1, "mask": 1, "arena": 1}
    assert run(program, "without memory")[1] == {"depth": 0, "kept": 1, "mask": 1, "arena": 0}, "marks do nothing then"


def test_translation_units_share_one_block(compile_marked: Compile) -> None:
    other = "#include <headway.h>\nvoid *other(void);\nvoid *other(void) { headway_depth(); return headway_self_; }\n"
    text = (
        REPORT
        + r"""
void *other(void);
int main(void) {
    void *theirs = other();
    report("here");
    printf("same=%d\n", theirs == headway_self_);
    return 0;
}
"""
    )
    assert run(compile_marked(text, other))[1]["same"] == 1


def test_a_shared_object_loaded_later_finds_the_same_block(compile_marked: Compile) -> None:
    shared = r"""
#include <headway.h>
void *enter(void);
void leave(void);
void *enter(void) { headway_set_noneffective(headway_tag("plugin")); return headway_self_; }
void leave(void) { headway_clear_noneffective(); }
"""
    text = (
        REPORT
        + r"""
#include <dlfcn.h>
static void *library;
static void *thread(void *none) {
    void *(*enter)(void) = __extension__(void *(*)(void))dlsym(library, "enter");
    void *theirs = enter();
    headway_depth();
    printf("same_in_thread=%d\n", theirs == headway_self_);
    return none;
}
int main(int n, char **arguments) {
    (void)n;
    headway_set_noneffective(headway_tag("main"));
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *(*enter)(void) = __extension__(void *(*)(void))dlsym(library, "enter");
    void (*leave)(void) = __extension__(void (*)(void))dlsym(library, "leave");
    printf("same=%d\n", enter() == headway_self_);
    report("inside");
    leave();
    pthread_t id;
    pthread_create(&id, 0, thread, 0); pthread_join(id, 0);
    dlclose(library);
    headway_clear_noneffective();
    if (!fork()) { headway_set_noneffective(0); report("child"); _exit(0); }
    wait(0);
    report("end");
    char line[4096]; int arenas = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) arenas += strstr(line, "/memfd:headway") != 0;
    printf("arenas=%d\n", arenas);
    return 0;
}
"""
    )
    library = compile_marked(shared, flags=("-shared", "-fPIC"))
    blocks, figures = run(compile_marked(text, flags=("-std=gnu11",)), str(library))
    assert figures == {"same": 1, "same_in_thread": 1, "arenas": 1}
    assert blocks["inside"].depth == 2
    assert blocks["end"].entries == {"noneffective.main": 1, "noneffective.plugin": 1}
    assert blocks["child"].depth == 1


def test_objects_that_begin_at_the_same_moment_agree_on_one_arena(compile_marked: Compile) -> None:
    shared = r"""
#include <headway.h>
void *first(void);
void *first(void) { headway_depth(); return headway_arena_; }
"""
    text = (
        "#define _GNU_SOURCE\n"
        + REPORT
        + r"""
#include <dlfcn.h>
static int together;
static void *begin(void *function) {
    void *(*first)(void) = __extension__(void *(*)(void))function;
    __atomic_fetch_add(&together, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&together, __ATOMIC_SEQ_CST) < 4) {}
    return first();
}
static void *own(void) { headway_depth(); return headway_arena_; }
int main(int n, char **arguments) {
    (void)n;
    pthread_t ids[4];
    void *arenas[4];
    for (int i = 0; i < 4; i++) {
        void *library = i ? dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL) : 0;
        void *function = i ? dlsym(library, "first") : __extension__(void *)own;
        pthread_create(&ids[i], 0, begin, function);
    }
    for (int i = 0; i < 4; i++) pthread_join(ids[i], &arenas[i]);
    printf("same=%d\n", arenas[0] && arenas[0] == arenas[1] && arenas[1] == arenas[2] && arenas[2] == arenas[3]);
    return 0;
}
"""
    )
    flags = ("-shared", "-fPIC")
    libraries = [str(compile_marked(shared + f"/* {i} */", flags=flags)) for i in range(3)]
    program = compile_marked(text, flags=("-std=gnu11",))
    for _ in range(200):
        assert run(program, *libraries)[1] == {"same": 1}


def test_a_static_program(compile_marked: Compile) -> None:
    text = REPORT + 'int main(void) { HEADWAY_POLL("s") { report("in"); } return 0; }\n'
    try:
        program = compile_marked(text, flags=("-static",))
    except subprocess.CalledProcessError:
        pytest.skip("needs a static libc")
    assert run(program)[0]["in"].open == 2


def test_plain_functions_for_other_languages(compile_marked: Compile) -> None:
    implementation = "#define HEADWAY_IMPLEMENTATION\n#include <headway.h>\n"
    text = r"""
#include <stdint.h>
extern uint32_t headway_tag(const char *), headway_poll_tag(const char *), headway_depth(void);
extern void headway_set_noneffective(uint32_t), headway_clear_noneffective(void), headway_restore(uint32_t);
int main(void) {
    headway_set_noneffective(headway_tag("a"));
    headway_set_noneffective(headway_poll_tag("a"));
    if (headway_depth() != 2) return 1;
    headway_clear_noneffective();
    headway_restore(0);
    return (int)headway_depth();
}
"""
    run(compile_marked(implementation, text))


THREADS = (
    "#define _GNU_SOURCE\n"
    + REPORT
    + r"""
static pthread_barrier_t together;
static struct headway_block *blocks[4096];
static void *live(void *number) {
    headway_set_noneffective(headway_tag("t"));
    blocks[(size_t)number] = headway_self_;
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    headway_clear_noneffective();
    return 0;
}
static void *brief(void *none) { headway_set_noneffective(headway_tag("t")); return none; }
static void *late(void *none) { headway_depth(); report("late"); return none; }
int main(int n, char **arguments) {
    (void)n;
    size_t count = (size_t)atoi(arguments[1]), served = 0, twice = 0;
    static pthread_t ids[4096];
    pthread_attr_t small; pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&together, 0, (unsigned)count + 1);
    headway_depth();
    for (size_t i = 0; i < count; i++) if (pthread_create(&ids[i], &small, live, (void *)i)) return 1;
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < count; i++) served += (uintptr_t)blocks[i] > 1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i && (uintptr_t)blocks[i] > 1; k++) twice += blocks[i] == blocks[k];
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < count; i++) pthread_join(ids[i], 0);
    printf("served=%zu\ntwice=%zu\nrefused=%u\n", served, twice, headway_arena_->refused_threads);
    printf("used=%u\n", headway_arena_->used);
    for (int i = 0; i < 2000; i++) { pthread_create(&ids[0], &small, brief, 0); pthread_join(ids[0], 0); }
    printf("used_later=%u\n", headway_arena_->used);
    pthread_create(&ids[0], &small, late, 0); pthread_join(ids[0], 0);
    return 0;
}
"""
)


def test_each_thread_has_a_block_and_leaves_it_to_another(compile_marked: Compile) -> None:
    blocks, figures = run(compile_marked(THREADS, flags=("-std=gnu11",)), "300")
    assert (figures["served"], figures["twice"], figures["refused"], figures["used"]) == (300, 0, 0, 301)
    assert figures["used_later"] <= 302, "threads one after the other take over the blocks of the dead"
    late = blocks["late"]
    assert (late.depth, late.open, late.errors, late.times) == (0, 0, 0, {}), "nothing is left of the one before"


def test_more_threads_than_blocks_are_refused_counted_and_unharmed(compile_marked: Compile) -> None:
    program = compile_marked(THREADS, flags=("-std=gnu11", "-DHEADWAY_BLOCKS=8"))
    blocks, figures = run(program, "20")
    assert (figures["served"], figures["twice"], figures["refused"], figures["used"]) == (7, 0, 13, 8)
    assert blocks["late"].depth == 0, "there is room again when threads have ended"


def test_a_fork_takes_its_thread_along_and_no_other(compile_marked: Compile) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + REPORT
        + r"""
static pthread_barrier_t together;
static void *other(void *none) {
    headway_set_noneffective(headway_tag("other"));
    pthread_barrier_wait(&together); pthread_barrier_wait(&together);
    return none;
}
static int others(void) {
    int n = 0;
    struct headway_block *b = (struct headway_block *)((char *)headway_arena_ + HEADWAY_BLOCKS_AT_);
    for (uint32_t i = 0; i < headway_arena_->used; i++) n += b[i].tid && &b[i] != headway_self_;
    return n;
}
int main(void) {
    pthread_t id;
    pthread_barrier_init(&together, 0, 2);
    pthread_create(&id, 0, other, 0);
    pthread_barrier_wait(&together);
    headway_set_noneffective(headway_tag("a"));
    spin(20000000);
    uint64_t forked = headway_now_();
    fflush(stdout);
    if (!fork()) {
        headway_clear_noneffective();
        uint64_t passed = headway_now_() - forked;
        report("child");
        printf("child_pid=%d\n", headway_arena_->pid == (uint32_t)getpid() && headway_self_->tid == (uint32_t)getpid());
        printf("child_others=%d\n", others());
        printf("child_passed=%llu\n", (unsigned long long)passed);
        printf("child_since=%d\n", headway_self_->since >= forked);
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    report("parent");
    printf("others=%d\n", others());
    pthread_barrier_wait(&together);
    pthread_join(id, 0);
    return 0;
}
"""
    )
    blocks, figures = run(compile_marked(text, flags=("-std=gnu11",)))
    child, parent = blocks["child"], blocks["parent"]
    assert (figures["child_pid"], figures["child_others"], figures["child_since"]) == (1, 0, 1)
    assert child.times["noneffective.a"] <= figures["child_passed"], "its time begins with it"
    assert (child.depth, child.open) == (0, 0)
    assert (parent.depth, parent.times["noneffective.a"], figures["others"]) == (1, -1, 1), "the parent goes on"


def test_memory_is_only_used_for_threads_that_are_there(compile_marked: Compile) -> None:
    text = (
        REPORT
        + r"""
int main(void) {
    char line[512]; int inside = 0; long resident = -1;
    HEADWAY_NONEFFECTIVE("a") {}
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "/memfd:headway")) inside = 1;
        if (inside && resident < 0 && sscanf(line, "Rss: %ld", &resident) == 1) break;
    }
    printf("kilobytes=%ld\n", resident);
    return 0;
}
"""
    )
    assert 0 < run(compile_marked(text))[1]["kilobytes"] <= 128
