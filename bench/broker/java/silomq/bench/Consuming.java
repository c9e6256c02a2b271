package silomq.bench;

import java.nio.ByteBuffer;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers, alone and beside a producer that sends by the clock. */
final class Consuming {
    /** A listener gets so many messages at once, as a pull does. */
    private static final int AT_ONCE = 32;
    private static final int PATIENCE_S = 60;

    private final String names;
    private final DefaultMQProducer producer;

    Consuming(final String names, final DefaultMQProducer producer) {
        this.names = names;
        this.producer = producer;
    }

    private DefaultMQPushConsumer consumer(
            final String topic, final MessageListenerConcurrently listener)
            throws MQClientException {
        final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-readers");
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(AT_ONCE);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Counts the messages of a topic, each once. */
    private static final class Drained {
        private final long warm;
        private final long count;
        private final ConcurrentHashMap<Integer, BitSet> queues = new ConcurrentHashMap<>();
        private final AtomicLong seen = new AtomicLong();
        private final CountDownLatch whole = new CountDownLatch(1);
        private volatile long begin;
        private volatile long unmeasured;
        private volatile long end;

        Drained(final Order order) {
            warm = order.number("warm");
            count = order.number("count");
        }

        ConsumeConcurrentlyStatus take(final List<MessageExt> messages) {
            final BitSet there =
                    queues.computeIfAbsent(messages.get(0).getQueueId(), id -> new BitSet());
            int fresh = 0;
            synchronized (there) {
                for (final MessageExt message : messages) {
                    final int at = (int) message.getQueueOffset();
                    fresh += there.get(at) ? 0 : 1;
                    there.set(at);
                }
            }
            final long before = seen.getAndAdd(fresh);
            if (before < warm && before + fresh >= warm) {
                Report.begin();
                unmeasured = before + fresh;
                begin = System.nanoTime();
            }
            if (before < count && before + fresh >= count) {
                end = System.nanoTime();
                whole.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
    }

    void drain(final Order order) throws Exception {
        final Drained drained = new Drained(order);
        final DefaultMQPushConsumer consumer =
                consumer(order.text("topic"), (messages, context) -> drained.take(messages));
        final boolean whole = drained.whole.await(PATIENCE_S, TimeUnit.SECONDS);
        final long seen = drained.seen.get();
        new Report()
                .with("messages", seen - drained.unmeasured)
                .with("seen", seen)
                .with("failed", whole ? 0 : drained.count - seen)
                .with("seconds", (drained.end - drained.begin) / 1e9)
                .print();
        consumer.shutdown();
    }

    /** The order's messages, by number: when each was sent and when it came. */
    private static final class Trips {
        private final int warm;
        private final int count;
        private final AtomicLongArray sent;
        private final AtomicLongArray answered;
        private final AtomicLongArray came;
        private final CountDownLatch missing;

        Trips(final Order order) {
            warm = order.number("warm");
            count = warm + order.number("count");
            sent = new AtomicLongArray(count);
            answered = new AtomicLongArray(count);
            came = new AtomicLongArray(count);
            missing = new CountDownLatch(count);
        }

        ConsumeConcurrentlyStatus take(final List<MessageExt> messages) {
            final long now = System.nanoTime();
            for (final MessageExt message : messages) {
                final int number = ByteBuffer.wrap(message.getBody()).getInt();
                if (came.compareAndSet(number, 0, now)) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }

        /** The times from the send to `other` of the measured messages that have one. */
        Latencies until(final AtomicLongArray other) {
            final Latencies found = new Latencies();
            for (int i = warm; i < count; i++) {
                if (other.get(i) != 0) {
                    found.add(other.get(i) - sent.get(i));
                }
            }
            return found;
        }
    }

    void paced(final Order order) throws Exception {
        final Trips trips = new Trips(order);
        final DefaultMQPushConsumer consumer =
                consumer(order.text("topic"), (messages, context) -> trips.take(messages));
        final long step = TimeUnit.SECONDS.toNanos(1) / order.number("rate");
        final int size = order.number("size");
        long due = System.nanoTime();
        long begin = due;
        int failed = 0;
        for (int i = 0; i < trips.count; i++, due += step) {
            if (i == trips.warm) {
                Report.begin();
                begin = System.nanoTime();
                due = begin; // how late a cold JVM was is not measured
            }
            final boolean late = System.nanoTime() > due;
            for (long now = System.nanoTime(); now < due; now = System.nanoTime()) {
                LockSupport.parkNanos(due - now);
            }
            // A send that waits for the one before it has begun when it was due.
            trips.sent.set(i, late ? due : System.nanoTime());
            failed += send(order.text("topic"), i, size) ? 0 : 1;
            trips.answered.set(i, System.nanoTime());
        }
        final boolean whole = trips.missing.await(PATIENCE_S, TimeUnit.SECONDS);
        final double seconds = (System.nanoTime() - begin) / 1e9;
        new Report()
                .with("messages", trips.count - trips.warm)
                .with("failed", whole ? failed : failed + trips.missing.getCount())
                .with("seconds", seconds)
                .with("send", trips.until(trips.answered))
                .with("listener", trips.until(trips.came))
                .print();
        consumer.shutdown();
    }

    private boolean send(final String topic, final int number, final int size) {
        final byte[] body = new byte[size];
        ByteBuffer.wrap(body).putInt(number);
        try {
            return producer.send(new Message(topic, body)).getSendStatus() == SendStatus.SEND_OK;
        } catch (final Exception refused) {
            System.err.println(refused);
            return false;
        }
    }
}
