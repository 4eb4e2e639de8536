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
    headway::state render{"render"};
    return headway_depth() == 2 ? 0 : 2;
}
