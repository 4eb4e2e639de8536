// Throws fifty exceptions, and catches them: the library has static probes of its own at both.
int main() {
    int caught = 0;
    for (int i = 0; i < 50; i++) {
        try {
            throw i;
        } catch (int) {
            caught++;
        }
    }
    return caught != 50;
}
