package silomq.conformance;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** The messages that listeners have been given, and whether they are consumed. */
final class Seen {
    /** A message, and the time at which a listener had it. */
    record One(MessageExt message, long nanos, long millis) {
        String body() {
            return new String(message.getBody(), StandardCharsets.UTF_8);
        }
    }

    private final List<One> all = new ArrayList<>();
    private final Predicate<MessageExt> consumed;

    Seen() {
        this(message -> true);
    }

    Seen(Predicate<MessageExt> consumed) {
        this.consumed = consumed;
    }

    /** A listener that consumes messages in any order. */
    MessageListenerConcurrently concurrently() {
        return this::consume;
    }

    /** A listener that consumes the messages of a queue one after the other. */
    MessageListenerOrderly orderly() {
        return this::consume;
    }

    private ConsumeConcurrentlyStatus consume(
        List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        return note(messages)
            ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private ConsumeOrderlyStatus consume(List<MessageExt> messages, ConsumeOrderlyContext context) {
        return note(messages)
            ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }

    private synchronized boolean note(List<MessageExt> messages) {
        boolean good = true;
        for (MessageExt message : messages) {
            all.add(new One(message, System.nanoTime(), System.currentTimeMillis()));
            good &= consumed.test(message);
        }
        return good;
    }

    synchronized List<One> all() {
        return new ArrayList<>(all);
    }

    synchronized int count() {
        return all.size();
    }

    List<String> bodies() {
        return all().stream().map(One::body).toList();
    }

    /** Waits until there are so many, and returns them. */
    List<One> await(int wanted, String what) throws Exception {
        Expect.eventually(() -> count() >= wanted, what + ": " + wanted + " messages");
        return all();
    }
}
