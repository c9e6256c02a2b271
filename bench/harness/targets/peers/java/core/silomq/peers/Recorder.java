package silomq.peers;

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.Deflater;
import org.HdrHistogram.Histogram;

/**
 * What a worker did, second by second. A thread of its own writes a line for each second, so that
 * the work does not wait for it.
 */
final class Recorder {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final long HIGHEST_US = 3_600_000_000L;
    private static final int DIGITS = 3;

    private final PrintStream out;
    private final long start;
    private final boolean publishes;
    private final Thread writer;
    private volatile boolean ended;
    private Second current = new Second();
    private Second spare = new Second();
    private int number;
    private long messages;
    private long errors;
    private String firstError = "";

    /** Counts of one second. Guarded by the recorder. */
    private static final class Second {
        private final Histogram latency = new Histogram(1, HIGHEST_US, DIGITS);
        private final Histogram delay = new Histogram(1, HIGHEST_US, DIGITS);
        private long messages;
        private long bytes;
        private long errors;

        void clear() {
            latency.reset();
            delay.reset();
            messages = bytes = errors = 0;
        }
    }

    Recorder(final PrintStream out, final long start, final boolean publishes) {
        this.out = out;
        this.start = start;
        this.publishes = publishes;
        writer = new Thread(this::write, "recorder");
        writer.start();
    }

    /** A message was acknowledged, or read: how long after it was due. */
    synchronized void done(final long nanoseconds, final int bytes) {
        current.latency.recordValue(micros(nanoseconds));
        current.messages++;
        current.bytes += bytes;
    }

    synchronized void delayed(final long nanoseconds) {
        current.delay.recordValue(micros(nanoseconds));
    }

    synchronized void failed(final String error) {
        current.errors++;
        if (firstError.isEmpty()) {
            firstError = error;
        }
    }

    private static long micros(final long nanoseconds) {
        return Math.min(HIGHEST_US, Math.max(1, nanoseconds / 1000));
    }

    private void write() {
        while (!ended) {
            final long ends = start + (number + 1) * SECOND;
            final long left = ends - System.nanoTime();
            if (left > 0) {
                LockSupport.parkNanos(left);
            } else {
                tick();
            }
        }
    }

    private void tick() {
        final Second past;
        synchronized (this) {
            past = current;
            current = spare;
        }
        final String latency = encoded(past.latency);
        out.println("{\"type\":\"tick\",\"second\":" + number + ",\"messages\":" + past.messages
                + ",\"bytes\":" + past.bytes + ",\"errors\":" + past.errors + ",\""
                + (publishes ? "publish" : "end_to_end") + "\":\"" + latency + "\",\"delay\":\""
                + encoded(past.delay) + "\"}");
        messages += past.messages;
        errors += past.errors;
        past.clear();
        spare = past;
        number++;
    }

    private static String encoded(final Histogram histogram) {
        if (histogram.getTotalCount() == 0) {
            return "";
        }
        final ByteBuffer to = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        final int size =
                histogram.encodeIntoCompressedByteBuffer(to, Deflater.BEST_SPEED);
        return Base64.getEncoder()
                .encodeToString(java.util.Arrays.copyOf(to.array(), size));
    }

    /** Writes the last second and the last line. */
    void end(final double cpuSeconds) throws InterruptedException {
        ended = true;
        LockSupport.unpark(writer);
        writer.join();
        tick();
        out.println("{\"type\":\"done\",\"messages\":" + messages + ",\"errors\":" + errors
                + ",\"first_error\":" + Json.quoted(firstError) + ",\"cpu_s\":" + cpuSeconds
                + "}");
    }
}
