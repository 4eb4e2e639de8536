/** A thread of the Java runtime that spins as the library tells: Thread.onSpinWait() until a field changes. */
public class Spins {
    static volatile long given;

    public static void main(String[] words) throws Exception {
        long seconds = words.length > 0 ? Long.parseLong(words[0]) : 2;
        long[] taken = {0};
        Thread waits = new Thread(() -> {
            long next = 1;
            while (given >= 0) {
                while (given < next && given >= 0) {
                    Thread.onSpinWait();
                }
                next++;
                taken[0]++;
            }
        }, "waits");
        waits.start();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < end) {
            Thread.sleep(20);
            given++;
        }
        given = -1;
        waits.join();
        System.out.println(taken[0]);
    }
}
