package silomq.bench;

import java.util.Arrays;

/** All latencies of a run, in nanoseconds. A thread adds to its own. */
final class Latencies {
    private long[] values = new long[1 << 16];
    private int count;

    void add(final long nanoseconds) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = nanoseconds;
    }

    void addAll(final Latencies other) {
        for (int i = 0; i < other.count; i++) {
            add(other.values[i]);
        }
    }

    /** The nearest rank to a share of all, in microseconds; 0 of none. */
    double microseconds(final double share) {
        if (count == 0) {
            return 0;
        }
        final long[] sorted = Arrays.copyOf(values, count);
        Arrays.sort(sorted);
        return sorted[Math.max(0, (int) Math.ceil(share * count) - 1)] / 1e3;
    }
}
