package silomq.peers;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** RocketMQ's own client, one process a worker. The only word is its release. */
public final class RocketMQClient implements Client {
    private static final int TIMEOUT_MS = 30_000;

    private final String release;

    private RocketMQClient(final String release) {
        this.release = release;
    }

    public static void main(final String[] words) throws Exception {
        Alone.work(new RocketMQClient(words[0]));
    }

    @Override
    public String version() {
        return "\"rocketmq-client\":" + Json.quoted(release);
    }

    @Override
    public Sender sender(final Order order) throws Exception {
        final DefaultMQProducer producer = new DefaultMQProducer("bench-senders");
        producer.setNamesrvAddr(order.endpoint("names"));
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setMaxMessageSize(8 << 20);
        producer.setInstanceName("p" + order.whole("index"));
        producer.start();
        for (final String topic : order.texts("topics")) {
            producer.fetchPublishMessageQueues(topic);
        }
        return new Producer(producer);
    }

    private static String group(final Order order) {
        final String group = order.text("group");
        return group.isEmpty() ? "g" + UUID.randomUUID().toString().replace("-", "") : group;
    }

    @Override
    public Reader reader(final Order order) throws Exception {
        return order.text("call").equals("listen") ? listener(order) : poller(order);
    }

    private static Reader poller(final Order order) throws Exception {
        final DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group(order));
        consumer.setNamesrvAddr(order.endpoint("names"));
        consumer.setInstanceName("c" + group(order) + order.whole("index"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(order.whole("most"));
        for (final String topic : order.texts("topics")) {
            consumer.subscribe(topic, "*");
        }
        consumer.start();
        return new Reader() {
            @Override
            public List<byte[]> read(final long timeoutNs) {
                final List<byte[]> found = new ArrayList<>();
                consumer.poll(timeoutNs / 1_000_000).forEach(one -> found.add(one.getBody()));
                return found;
            }

            @Override
            public void close() {
                consumer.shutdown();
            }
        };
    }

    private static Reader listener(final Order order) throws Exception {
        final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group(order));
        consumer.setNamesrvAddr(order.endpoint("names"));
        consumer.setInstanceName("c" + group(order) + order.whole("index"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(32);
        for (final String topic : order.texts("topics")) {
            consumer.subscribe(topic, "*");
        }
        return new Reader() {
            @Override
            public List<byte[]> read(final long timeoutNs) {
                throw new UnsupportedOperationException("a push consumer is not read");
            }

            @Override
            public void listen(final Consumer<byte[]> take) throws Exception {
                consumer.registerMessageListener((MessageListenerConcurrently) (all, context) -> {
                    all.forEach(one -> take.accept(one.getBody()));
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
                consumer.start();
            }

            @Override
            public void close() {
                consumer.shutdown();
            }
        };
    }

    private record Producer(DefaultMQProducer producer) implements Sender {
        private static Message message(
                final String topic, final byte[] body, final String tag, final String key) {
            return new Message(topic, tag, key, body);
        }

        private static void check(final SendResult result) {
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("the broker answers " + result.getSendStatus());
            }
        }

        @Override
        public void oneway(final String topic, final byte[] body, final String tag,
                final String key) throws Exception {
            producer.sendOneway(message(topic, body, tag, key));
        }

        @Override
        public void send(final String topic, final byte[] body, final String tag,
                final String key) throws Exception {
            check(producer.send(message(topic, body, tag, key)));
        }

        @Override
        public void begin(final String topic, final byte[] body, final String tag,
                final String key, final Acknowledged acknowledged) throws Exception {
            producer.send(message(topic, body, tag, key), new SendCallback() {
                @Override
                public void onSuccess(final SendResult result) {
                    final SendStatus status = result.getSendStatus();
                    acknowledged.done(
                            status == SendStatus.SEND_OK ? "" : "the broker answers " + status);
                }

                @Override
                public void onException(final Throwable error) {
                    acknowledged.done(error.toString());
                }
            });
        }

        @Override
        public void batch(final String topic, final List<byte[]> bodies, final String tag,
                final String key) throws Exception {
            final List<Message> batch = new ArrayList<>(bodies.size());
            bodies.forEach(body -> batch.add(message(topic, body, tag, key)));
            check(producer.send(batch));
        }

        @Override
        public void close() {
            producer.shutdown();
        }
    }
}
