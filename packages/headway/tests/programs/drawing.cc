// Functions of C++ whose names are mangled: overloads, templates, a switch, tail calls, and exceptions that pass through.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <ctime>
#include <pthread.h>
#include <sys/prctl.h>

#define KEPT __attribute__((noinline, noclone, used))

static long now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

KEPT static long spin(long ns) {
    long start = now(), t;
    do t = now();
    while (t < start + ns);
    return t - start;
}

extern "C" KEPT long plain(long n) {
    long took = spin(n);
    asm volatile("" ::: "memory");
    return took;
}

extern "C" KEPT long forward(long n) { return plain(n); }  // only a jump

namespace scene {

namespace {
KEPT int hidden(int n) {
    asm volatile("" : "+r"(n));
    return n + 1;
}
}  // namespace

template <typename T>
KEPT T scaled(T n) {
    asm volatile("" ::: "memory");
    return n * 2;
}
template int scaled<int>(int);
template double scaled<double>(double);

class Canvas {
public:
    long drawn = 0;
    KEPT long draw(int ns) {
        drawn++;
        long took = spin(ns);
        asm volatile("" ::: "memory");
        return took;
    }
    KEPT long draw(double ns) {
        if (ns < 0) throw std::runtime_error("negative");
        return draw(static_cast<int>(ns));  // a tail call
    }
    KEPT long shown() const {
        asm volatile("" ::: "memory");
        return drawn;
    }
};

KEPT int choose(int n) {  // a table of places
    switch (n) {
        case 0: return hidden(7);
        case 1: return std::abs(n - 9);
        case 2: puts(""); return 3;
        case 3: return hidden(n) + 1;
        case 4: return 9 * n;
        case 5: return hidden(n) * 5;
        case 6: return n - 3;
        default: return 1;
    }
}

}  // namespace scene

static void *act(void *words) {
    scene::Canvas canvas;
    const char *how = static_cast<char **>(words)[0];
    int times = atoi(static_cast<char **>(words)[1]);
    prctl(PR_SET_NAME, how);
    long inside = 0, caught = 0, outside = 0;
    for (int i = 0; i < times; i++) {
        if (!strcmp(how, "draw")) {
            inside += canvas.draw(200000);
        } else if (!strcmp(how, "tail")) {
            inside += canvas.draw(200000.0);
        } else if (!strcmp(how, "throw")) {
            try {
                canvas.draw(-1.0);
            } catch (const std::runtime_error &) {
                caught++;
            }
            scene::scaled(i);
        } else if (!strcmp(how, "choose")) {
            inside += scene::choose(i % 7 == 2 ? 1 : i % 7);
        }
        outside += spin(100000);
    }
    inside += scene::hidden(0) - 1 + (scene::scaled(0.0) > 1);
    printf("%ld %ld %ld %ld\n", inside, outside, caught, canvas.shown());
    return nullptr;
}

// What it is to do and how often: one after the other, each in a thread that has its name.
int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        pthread_t thread;
        pthread_create(&thread, nullptr, act, argv + i);
        pthread_join(thread, nullptr);
    }
    return forward(0) < 0;
}
