package silomq.peers;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The loop of a producer: the same as load/producing.py, by whose rules a message is due. */
final class Producing {
    private static final long SLICE_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long SPIN_NS = TimeUnit.MICROSECONDS.toNanos(20);
    private static final long LEAST_NS = TimeUnit.MICROSECONDS.toNanos(100);
    private static final int END_S = 30;

    private final Order order;
    private final Sender sender;
    private final Recorder recorder;
    private final Numbers numbers;
    private final Session session;
    private final Messages messages;
    private final long end;
    private final long warm;
    private final double period;
    private double first;
    private boolean isWarm;
    private final long spin;
    private final long least;

    Producing(final Order order, final Sender sender, final Recorder recorder,
            final Numbers numbers, final Session session, final Messages messages) {
        this.order = order;
        this.sender = sender;
        this.recorder = recorder;
        this.numbers = numbers;
        this.session = session;
        this.messages = messages;
        end = order.span();
        warm = order.warmUp();
        period = order.number("rate") > 0 ? 1e9 / order.number("rate") : 0;
        final boolean alone = order.whole("workers") < Runtime.getRuntime().availableProcessors();
        spin = alone ? SPIN_NS : 0;
        least = alone ? 0 : LEAST_NS;
        first = period * order.whole("index") / order.whole("workers");
    }

    void run() throws Exception {
        switch (order.text("call")) {
            case "oneway" -> alone((one, body) ->
                    sender.oneway(one.topic(), body, one.tag(), one.key()));
            case "send" -> alone((one, body) ->
                    sender.send(one.topic(), body, one.tag(), one.key()));
            case "async" -> window();
            case "batch" -> batches();
            default -> throw new IllegalArgumentException("no call " + order.text("call"));
        }
    }

    private interface Call {
        void send(Messages.Message one, byte[] body) throws Exception;
    }

    private long limit() {
        final long limit = (long) order.number("messages");
        return limit == 0 ? Long.MAX_VALUE : limit;
    }

    /** When message `n` is due: the time, or -1 at the end. Waits until then. */
    private long due(final long n) {
        final long now = System.nanoTime();
        if (session.isEnded()) {
            return -1;
        }
        if (period == 0) {
            return now - session.start() >= end ? -1 : now;
        }
        if (!isWarm && now - session.start() >= warm) {
            while (first + n * period < warm) {
                first += period;
            }
            isWarm = true;
        }
        final long offset = Math.round(first + n * period);
        final long due = session.start() + offset;
        if (offset >= end) {
            return -1;
        }
        for (long left = due - now; left > 0; left = due - System.nanoTime()) {
            if (session.isEnded()) {
                return -1;
            }
            if (left > spin) {
                LockSupport.parkNanos(Math.min(Math.max(left - spin, least), SLICE_NS));
            } else {
                Thread.onSpinWait();
            }
        }
        return due;
    }

    private void late(final long due) {
        if (period > 0) {
            recorder.delayed(System.nanoTime() - due);
        }
    }

    private void stored(final byte[] body, final long due) {
        recorder.done(System.nanoTime() - due, body.length);
        if (numbers != null) {
            numbers.note(body);
        }
    }

    private void alone(final Call call) {
        final long limit = limit();
        for (long n = 0; n < limit; n++) {
            final long due = due(n);
            if (due < 0) {
                break;
            }
            final Messages.Message one = messages.next();
            final byte[] body = one.stamped(due, numbers);
            late(due);
            try {
                call.send(one, body);
                stored(body, due);
            } catch (final Exception error) {
                recorder.failed(error.toString());
            }
        }
    }

    private void window() throws InterruptedException {
        final int window = order.whole("window");
        final Semaphore room = new Semaphore(window);
        final long limit = limit();
        for (long n = 0; n < limit; n++) {
            if (period == 0 && !room(room)) {
                break;
            }
            final long due = due(n);
            if (due < 0) {
                if (period == 0) {
                    room.release();
                }
                break;
            }
            if (period > 0 && !room(room)) {
                break;
            }
            begin(messages.next(), due, room);
        }
        if (!room.tryAcquire(window, END_S, TimeUnit.SECONDS)) {
            final int missing = window - room.drainPermits();
            for (int i = 0; i < missing; i++) {
                recorder.failed("no answer within " + END_S + " s");
            }
        }
    }

    private boolean room(final Semaphore room) throws InterruptedException {
        while (!room.tryAcquire(SLICE_NS, TimeUnit.NANOSECONDS)) {
            if (session.isEnded()) {
                return false;
            }
        }
        return true;
    }

    private void begin(final Messages.Message one, final long due, final Semaphore room) {
        final byte[] body = one.stamped(due, numbers);
        late(due);
        try {
            sender.begin(one.topic(), body, one.tag(), one.key(), error -> {
                if (error.isEmpty()) {
                    stored(body, due);
                } else {
                    recorder.failed(error);
                }
                room.release();
            });
        } catch (final Exception error) {
            recorder.failed(error.toString());
            room.release();
        }
    }

    private void batches() {
        final int most = order.whole("batch");
        final long limit = limit();
        for (long n = 0; n < limit; n += most) {
            final int count = (int) Math.min(most, limit - n);
            final long last = due(n + count - 1);
            if (last < 0) {
                break;
            }
            send(n, count, last);
        }
    }

    private void send(final long n, final int count, final long last) {
        final List<byte[]> bodies = new ArrayList<>(count);
        final long[] dues = new long[count];
        Messages.Message head = null;
        for (int i = 0; i < count; i++) {
            final Messages.Message one = messages.next();
            head = i == 0 ? one : head;
            dues[i] = period == 0 ? last : session.start() + Math.round(first + (n + i) * period);
            bodies.add(one.stamped(dues[i], numbers));
            late(dues[i]);
        }
        try {
            sender.batch(head.topic(), bodies, head.tag(), head.key());
            for (int i = 0; i < count; i++) {
                stored(bodies.get(i), dues[i]);
            }
        } catch (final Exception error) {
            for (int i = 0; i < count; i++) {
                recorder.failed(error.toString());
            }
        }
    }
}
