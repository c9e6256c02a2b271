package silomq.peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.DoubleSupplier;

/** One worker: an order comes in, ticks go out, by the protocol of load/protocol.py. */
final class Session {
    private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(600);

    private final BufferedReader in;
    private final PrintStream out;
    private final DoubleSupplier cpuSeconds;
    private long start;
    private volatile boolean ended;

    Session(final BufferedReader in, final PrintStream out, final DoubleSupplier cpuSeconds) {
        this.in = in;
        this.out = out;
        this.cpuSeconds = cpuSeconds;
    }

    long start() {
        return start;
    }

    /** Whether the harness has ended this worker. */
    boolean isEnded() {
        return ended;
    }

    void run(final Client client) throws Exception {
        final String line = in.readLine();
        if (line == null) {
            return;
        }
        final Order order = new Order(Json.object(line));
        final Numbers numbers = order.text("check").isEmpty() ? null : new Numbers(order);
        if (order.produces()) {
            try (Sender sender = client.sender(order)) {
                final Messages messages = new Messages(order);
                final Recorder recorder = begin(client, true);
                if (recorder != null) {
                    final double before = cpuSeconds.getAsDouble();
                    new Producing(order, sender, recorder, numbers, this, messages).run();
                    end(recorder, numbers, before);
                }
            }
        } else {
            try (Reader reader = client.reader(order)) {
                final Recorder recorder = begin(client, false);
                if (recorder != null) {
                    final double before = cpuSeconds.getAsDouble();
                    consume(order, reader, recorder, numbers);
                    end(recorder, numbers, before);
                }
            }
        }
    }

    /** Says that all is ready, and waits for the start. Null if the harness ended before it. */
    private Recorder begin(final Client client, final boolean publishes) throws IOException {
        out.println("{\"type\":\"ready\",\"versions\":{" + client.version() + "}}");
        final String line = in.readLine();
        if (line == null) {
            return null;
        }
        start = Long.parseLong(line.trim());
        final Thread watch = new Thread(this::awaitEnd, "input");
        watch.setDaemon(true);
        watch.start();
        final Recorder recorder = new Recorder(out, start, publishes);
        for (long left = start - System.nanoTime(); left > 0; left = start - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        return recorder;
    }

    private void end(final Recorder recorder, final Numbers numbers, final double before)
            throws Exception {
        if (numbers != null) {
            numbers.write();
        }
        recorder.end(cpuSeconds.getAsDouble() - before);
    }

    private void awaitEnd() {
        try {
            while (in.readLine() != null) {
                Thread.onSpinWait();
            }
        } catch (final IOException closed) {
            System.err.println("a worker's input has failed: " + closed);
        }
        ended = true;
    }

    private void consume(final Order order, final Reader reader, final Recorder recorder,
            final Numbers numbers) throws Exception {
        final long end = order.span() + PATIENCE_NS;
        final long drain = (long) order.number("drain");
        final AtomicLong count = new AtomicLong();
        final boolean listens = order.text("call").equals("listen");
        if (listens) {
            reader.listen(body -> {
                take(body, System.nanoTime(), recorder, numbers);
                count.incrementAndGet();
            });
        }
        while (!ended && System.nanoTime() - start < end
                && (drain == 0 || count.get() < drain)) {
            if (listens) {
                LockSupport.parkNanos(WAIT_NS);
                continue;
            }
            try {
                final java.util.List<byte[]> found = reader.read(WAIT_NS);
                final long now = System.nanoTime();
                found.forEach(body -> take(body, now, recorder, numbers));
                count.addAndGet(found.size());
            } catch (final Exception error) {
                recorder.failed(error.toString());
                LockSupport.parkNanos(WAIT_NS);
            }
        }
    }

    private static void take(final byte[] body, final long now, final Recorder recorder,
            final Numbers numbers) {
        recorder.done(now - ByteBuffer.wrap(body).getLong(), body.length);
        if (numbers != null) {
            numbers.note(body);
        }
    }
}
