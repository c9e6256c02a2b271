package silomq.peers;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Groups of readers of a store in the same process. The members of a group share a cursor for each
 * queue. A member takes a queue that no other member has at that moment, and reads on.
 */
final class Cursors {
    private static final long REST_NS = TimeUnit.MICROSECONDS.toNanos(50);

    private final ConcurrentHashMap<String, List<Shared>> groups = new ConcurrentHashMap<>();
    private final Store store;

    /** A place in one queue of a store. */
    interface Cursor {
        /** Adds the next bodies to `to`, `most` at most; none if there are none. */
        void read(int most, List<byte[]> to) throws Exception;
    }

    /** What has queues. */
    interface Store {
        Cursor first(String topic, int queue) throws Exception;
    }

    private static final class Shared {
        private final ReentrantLock lock = new ReentrantLock();
        private final Cursor cursor;

        Shared(final Cursor cursor) {
            this.cursor = cursor;
        }
    }

    Cursors(final Store store) {
        this.store = store;
    }

    Reader reader(final Order order) throws Exception {
        final String group = order.text("group");
        final List<Shared> shared;
        synchronized (groups) {
            final List<Shared> known = groups.get(group);
            shared = known != null && !group.isEmpty() ? known : open(order);
            groups.put(group, shared);
        }
        final int most = order.whole("most");
        return new Reader() {
            private int next = order.whole("index") % shared.size();

            @Override
            public List<byte[]> read(final long timeoutNs) throws Exception {
                final List<byte[]> found = new ArrayList<>();
                final long end = System.nanoTime() + timeoutNs;
                while (true) {
                    for (int i = 0; i < shared.size() && found.isEmpty(); i++) {
                        final Shared one = shared.get(next);
                        next = (next + 1) % shared.size();
                        if (one.lock.tryLock()) {
                            try {
                                one.cursor.read(most, found);
                            } finally {
                                one.lock.unlock();
                            }
                        }
                    }
                    if (!found.isEmpty() || System.nanoTime() >= end) {
                        return found;
                    }
                    LockSupport.parkNanos(REST_NS);
                }
            }
        };
    }

    private List<Shared> open(final Order order) throws Exception {
        final List<Shared> found = new ArrayList<>();
        for (final String topic : order.texts("topics")) {
            for (int queue = 0; queue < order.whole("queues"); queue++) {
                found.add(new Shared(store.first(topic, queue)));
            }
        }
        return found;
    }
}
