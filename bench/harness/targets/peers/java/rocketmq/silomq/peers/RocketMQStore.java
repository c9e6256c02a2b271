package silomq.peers;

import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * RocketMQ's DefaultMessageStore in this process. Words: a file of its settings, the number of
 * queues, the release, and the topics. Messages have what RocketMQ's client gives them: tags, keys
 * and a unique key.
 */
public final class RocketMQStore implements Client {
    private static final SocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final String GROUP = "bench";

    private final DefaultMessageStore store;
    private final int queues;
    private final String release;
    private final Cursors cursors = new Cursors(this::cursor);

    private RocketMQStore(final DefaultMessageStore store, final int queues,
            final String release) {
        this.store = store;
        this.queues = queues;
        this.release = release;
    }

    public static void main(final String[] words) throws Exception {
        Host.keepOutput();
        final Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(words[0])) {
            settings.load(file);
        }
        final MessageStoreConfig config = new MessageStoreConfig();
        MixAll.properties2Object(settings, config);
        final int queues = Integer.parseInt(words[1]);
        final List<String> topics = List.of(words).subList(3, words.length);
        final DefaultMessageStore store = Release.open(config, topics, queues);
        if (!store.load()) {
            throw new IllegalStateException("the store did not load");
        }
        store.start();
        Host.serve(new RocketMQStore(store, queues, words[2]));
    }

    @Override
    public String version() {
        return "\"rocketmq-store\":" + Json.quoted(release);
    }

    @Override
    public Sender sender(final Order order) {
        return new Putting(store, queues, order.whole("index"));
    }

    @Override
    public Reader reader(final Order order) throws Exception {
        return cursors.reader(order);
    }

    private Cursors.Cursor cursor(final String topic, final int queue) {
        return new Cursors.Cursor() {
            private long offset;

            @Override
            public void read(final int most, final List<byte[]> to) {
                final GetMessageResult found =
                        store.getMessage(GROUP, topic, queue, offset, most, null);
                if (found == null) {
                    return;
                }
                try {
                    for (final ByteBuffer record : found.getMessageBufferList()) {
                        to.add(MessageDecoder.decode(record).getBody());
                    }
                    if (!found.getMessageBufferList().isEmpty()) {
                        offset = found.getNextBeginOffset();
                    }
                } finally {
                    found.release();
                }
            }
        };
    }

    @Override
    public void close() {
        store.shutdown();
    }

    /** A producer's thread. It sends to the queues in turn. */
    private static final class Putting implements Sender {
        private final DefaultMessageStore store;
        private final int queues;
        private int queue;

        Putting(final DefaultMessageStore store, final int queues, final int index) {
            this.store = store;
            this.queues = queues;
            queue = index % queues;
        }

        private int nextQueue() {
            queue = queue + 1 == queues ? 0 : queue + 1;
            return queue;
        }

        private static Message message(
                final String topic, final byte[] body, final String tag, final String key) {
            final Message message = new Message(topic, body);
            if (!tag.isEmpty()) {
                message.setTags(tag);
            }
            if (!key.isEmpty()) {
                message.setKeys(key);
            }
            MessageClientIDSetter.setUniqID(message);
            return message;
        }

        private static String properties(final Message message) {
            return MessageDecoder.messageProperties2String(message.getProperties());
        }

        private static long tagsCode(final Message message) {
            final String tags = message.getTags();
            return tags == null ? 0 : tags.hashCode();
        }

        /** What both releases give a message; the class of it lies in another package in each. */
        private <T extends MessageExt> T filled(final T inner, final Message message) {
            inner.setTopic(message.getTopic());
            inner.setQueueId(nextQueue());
            inner.setBody(message.getBody());
            MessageAccessor.setProperties(inner, message.getProperties());
            inner.setBornTimestamp(System.currentTimeMillis());
            inner.setBornHost(HOST);
            inner.setStoreHost(HOST);
            return inner;
        }

        private static String wrong(final PutMessageResult result) {
            final PutMessageStatus status = result.getPutMessageStatus();
            return status == PutMessageStatus.PUT_OK ? "" : "the store answers " + status;
        }

        private static void check(final PutMessageResult result) {
            final String wrong = wrong(result);
            if (!wrong.isEmpty()) {
                throw new IllegalStateException(wrong);
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
            final Message message = message(topic, body, tag, key);
            final String properties = properties(message);
            check(store.putMessage(
                    filled(Release.inner(properties, tagsCode(message)), message)));
        }

        @Override
        public void begin(final String topic, final byte[] body, final String tag,
                final String key, final Acknowledged acknowledged) {
            final Message message = message(topic, body, tag, key);
            final String properties = properties(message);
            store.asyncPutMessage(filled(Release.inner(properties, tagsCode(message)), message))
                    .whenComplete((result, error) -> acknowledged.done(
                            error != null ? error.toString() : wrong(result)));
        }

        @Override
        public void batch(final String topic, final List<byte[]> bodies, final String tag,
                final String key) {
            final List<Message> members = new ArrayList<>(bodies.size());
            for (final byte[] body : bodies) {
                members.add(message(topic, body, tag, key));
            }
            final MessageExtBatch batch = new MessageExtBatch();
            batch.setTopic(topic);
            batch.setQueueId(nextQueue());
            batch.setBody(MessageDecoder.encodeMessages(members));
            batch.setBornTimestamp(System.currentTimeMillis());
            batch.setBornHost(HOST);
            batch.setStoreHost(HOST);
            check(store.putMessages(batch));
        }
    }
}
