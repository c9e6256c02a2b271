package silomq.peers;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.bytes.SyncMode;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueue;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.DocumentContext;

/**
 * Chronicle Queue in this process: a queue in a folder of its own for each queue of each topic.
 * Words: the folder, the number of queues, "sync" or "async", the release, and the topics.
 * A message is its body, with the tag and the key behind it.
 */
public final class ChronicleStore implements Client {
    private static final int LENGTH = Integer.BYTES;

    private final Map<String, SingleChronicleQueue[]> topics = new HashMap<>();
    private final int queues;
    private final boolean syncs;
    private final String release;
    private final Cursors cursors = new Cursors(this::cursor);

    private ChronicleStore(final String[] words) {
        queues = Integer.parseInt(words[1]);
        syncs = words[2].equals("sync");
        release = words[3];
        for (final String topic : List.of(words).subList(4, words.length)) {
            final SingleChronicleQueue[] all = new SingleChronicleQueue[queues];
            for (int i = 0; i < queues; i++) {
                all[i] = SingleChronicleQueueBuilder
                        .binary(new File(words[0], topic + File.separator + i))
                        .syncMode(syncs ? SyncMode.SYNC : SyncMode.NONE)
                        .build();
            }
            topics.put(topic, all);
        }
    }

    public static void main(final String[] words) throws Exception {
        Host.keepOutput();
        Host.serve(new ChronicleStore(words));
    }

    @Override
    public String version() {
        return "\"chronicle-queue\":" + Json.quoted(release);
    }

    @Override
    public Sender sender(final Order order) {
        return new Appending(order.whole("index"));
    }

    @Override
    public Reader reader(final Order order) throws Exception {
        return cursors.reader(order);
    }

    private Cursors.Cursor cursor(final String topic, final int queue) {
        // The members of a group take turns, one thread at a time.
        final ExcerptTailer tailer = topics.get(topic)[queue].createTailer();
        tailer.singleThreadedCheckDisabled(true);
        return (most, to) -> {
            for (int i = 0; i < most; i++) {
                try (DocumentContext document = tailer.readingDocument()) {
                    if (!document.isPresent()) {
                        return;
                    }
                    final Bytes<?> bytes = document.wire().bytes();
                    final byte[] body = new byte[bytes.readInt()];
                    bytes.read(body);
                    to.add(body);
                }
            }
        };
    }

    @Override
    public void close() {
        topics.values().forEach(all -> List.of(all).forEach(SingleChronicleQueue::close));
    }

    /** A producer's thread. It sends to the queues in turn. */
    private final class Appending implements Sender {
        private final Map<String, ExcerptAppender[]> appenders = new HashMap<>();
        private int queue;

        Appending(final int index) {
            queue = index % queues;
        }

        private ExcerptAppender next(final String topic) {
            queue = queue + 1 == queues ? 0 : queue + 1;
            final ExcerptAppender[] all =
                    appenders.computeIfAbsent(topic, name -> new ExcerptAppender[queues]);
            if (all[queue] == null) {
                all[queue] = topics.get(topic)[queue].createAppender();
            }
            return all[queue];
        }

        private void append(final ExcerptAppender to, final byte[] body, final String tag,
                final String key) {
            try (DocumentContext document = to.writingDocument()) {
                final Bytes<?> bytes = document.wire().bytes();
                bytes.ensureCapacity(bytes.writePosition() + LENGTH + body.length);
                bytes.writeInt(body.length).write(body).writeUtf8(tag).writeUtf8(key);
            }
        }

        @Override
        public void oneway(
                final String topic, final byte[] body, final String tag, final String key) {
            throw new UnsupportedOperationException("a store in process has no one-way call");
        }

        @Override
        public void send(
                final String topic, final byte[] body, final String tag, final String key) {
            batch(topic, List.of(body), tag, key);
        }

        @Override
        public void begin(final String topic, final byte[] body, final String tag,
                final String key, final Acknowledged acknowledged) {
            throw new UnsupportedOperationException("Chronicle Queue has no asynchronous call");
        }

        @Override
        public void batch(final String topic, final List<byte[]> bodies, final String tag,
                final String key) {
            final ExcerptAppender appender = next(topic);
            for (final byte[] body : bodies) {
                append(appender, body, tag, key);
            }
            if (syncs) {
                appender.sync();
            }
        }

        @Override
        public void close() {
            appenders.values().forEach(all -> {
                for (final ExcerptAppender one : all) {
                    if (one != null) {
                        one.close();
                    }
                }
            });
        }
    }
}
