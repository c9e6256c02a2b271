package silomq.conformance;

import java.util.Objects;

/** What a check expects, and waits for. */
final class Expect {
    /** As long as anything may take that needs no timeout of its own, milliseconds. */
    static final long PATIENCE = 30_000;

    private Expect() {
    }

    /** Something that is true, or not yet. */
    @FunctionalInterface
    interface Condition {
        boolean holds() throws Exception;
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object wanted, Object found, String what) {
        if (!Objects.equals(wanted, found)) {
            throw new AssertionError(what + ": " + found + ", expected " + wanted);
        }
    }

    static void eventually(Condition condition, String what) throws Exception {
        within(PATIENCE, condition, what);
    }

    /** Waits until it holds, and returns after how many milliseconds it did. */
    static long within(long millis, Condition condition, String what) throws Exception {
        long began = System.nanoTime();
        while (!condition.holds()) {
            if ((System.nanoTime() - began) / 1_000_000 > millis) {
                throw new AssertionError("not within " + millis + " ms: " + what);
            }
            Thread.sleep(10);
        }
        return (System.nanoTime() - began) / 1_000_000;
    }
}
