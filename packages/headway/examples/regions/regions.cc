// The same in C++: a region lasts until the end of its scope, however that is left.
//
// c++ -O2 -pthread -I"$(python3 -c 'import headway; print(headway.get_include())')" regions.cc -o regions
// headway stat -- ./regions
#include <headway.h>

#include <stdexcept>

static volatile unsigned long sink;

static void work(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink = sink + i;
}

static void parse(int line) {
    static const headway_tag_t tag = headway_tag("parse");
    headway::noneffective region{tag};
    work(200000);
    if (line % 2) throw std::runtime_error("odd");
    work(200000);
}

int main() {
    int found = 0;
    for (int line = 0; line < 500; line++) {
        try {
            parse(line);
        } catch (const std::runtime_error &) {
            found++;
        }
        {
            headway::poll region{"ring"};
            work(100000);
        }
        headway::state region{"draw"};
        work(400000);
    }
    return found == 250 && headway_depth() == 0 ? 0 : 1;
}
