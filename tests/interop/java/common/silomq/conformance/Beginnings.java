package silomq.conformance;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where a group begins, and where it goes on. */
@SuppressWarnings("deprecation") // of calls that users have
final class Beginnings {
    /** A topic of the strict server whose first messages are gone. */
    private static final String CLEANED = "cleaned";

    private Beginnings() {
    }

    /** Points 30 and 31. A topic whose first message is in memory begins there for everybody. */
    static void aNewGroupBeginsAtTheFirstOfFewMessages(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("few"), 1).get(0);
        scope.send(queue, "", "m", 5);
        for (ConsumeFromWhere where : List.of(
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)) {
            Seen seen = new Seen();
            DefaultMQPushConsumer consumer =
                scope.consumer(scope.named(where.name()), queue.getTopic(), seen);
            consumer.setConsumeFromWhere(where);
            consumer.setConsumeTimestamp("20200101000000");
            consumer.start();
            seen.await(5, where.name());
            Expect.equal(List.of("m0", "m1", "m2", "m3", "m4"),
                seen.bodies().stream().sorted().toList(), where.name());
            consumer.shutdown();
        }
    }

    /** Point 32. */
    static void aGroupGoesOnWhereItStopped(Scope scope) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("stops"), 2);
        List<String> all = new ArrayList<>();
        long offset = 0;
        for (String prefix : List.of("before", "between", "after")) {
            for (MessageQueue queue : queues) {
                scope.send(queue, "", prefix + queue.getQueueId(), 10);
            }
            Seen seen = new Seen();
            DefaultMQPushConsumer consumer =
                scope.consumer(scope.named("stops"), queues.get(0).getTopic(), seen);
            consumer.start();
            seen.await(20, prefix);
            offset += 10;
            for (MessageQueue queue : queues) {
                Scope.awaitConsumed(consumer, queue, offset);
            }
            consumer.shutdown(); // which commits these offsets
            Expect.that(
                seen.bodies().stream().allMatch(body -> body.startsWith(prefix)),
                "a message came again: " + seen.bodies());
            all.addAll(seen.bodies());
        }
        Expect.equal(60, all.size(), "messages");
    }

    // -- on a topic whose first messages are gone; its groups are called cleaned-WHERE-RELEASE

    /** Points 24 and 31. */
    static void firstIsTheFirstThatIsThere(Scope scope) throws Exception {
        long least = cleanedQueue(scope).least();
        Seen seen = consume(scope, "first", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        Expect.equal(least, first(seen), "the first offset");
    }

    /** Point 31. */
    static void aTimeIsTheFirstMessageFromThenOn(Scope scope) throws Exception {
        long least = cleanedQueue(scope).least();
        // The client asks for what came in the last half hour.
        Seen seen = consume(scope, "timestamp", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        Expect.equal(least, first(seen), "the first offset");
    }

    /** Point 30. */
    static void lastIsTheEnd(Scope scope) throws Exception {
        Ends ends = cleanedQueue(scope);
        Seen seen = consume(scope, "last", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        DefaultMQProducer producer = scope.newProducer(scope.place.strict);
        producer.start();
        Expect.eventually(() -> {
            producer.send(new Message(CLEANED, new byte[] {'x'}), ends.queue());
            Thread.sleep(100);
            return seen.count() > 0;
        }, "a new message");
        Expect.that(first(seen) >= ends.greatest(), "it began at " + first(seen));
    }

    /** Point 24. Somebody has committed offset 0 for the group. */
    static void whatIsGoneIsPassedOver(Scope scope) throws Exception {
        Ends ends = cleanedQueue(scope);
        Seen seen = consume(scope, "gone", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        Expect.equal(ends.least(), first(seen), "the first offset");
    }

    /** A queue with its least and its greatest offset. */
    private record Ends(MessageQueue queue, long least, long greatest) {
    }

    private static Ends cleanedQueue(Scope scope) throws Exception {
        DefaultMQProducer producer = scope.newProducer(scope.place.strict);
        producer.setProducerGroup(scope.named("asking"));
        producer.start();
        MessageQueue queue = Scope.queuesOf(producer, CLEANED).get(0);
        Ends ends = new Ends(queue, producer.minOffset(queue), producer.maxOffset(queue));
        Expect.that(ends.least() > 0, "no message of " + CLEANED + " is gone");
        return ends;
    }

    private static Seen consume(Scope scope, String group, ConsumeFromWhere where)
        throws Exception {
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(CLEANED + "-" + group + "-" + scope.place.release, CLEANED, seen);
        consumer.setNamesrvAddr(scope.place.strict);
        consumer.setConsumeFromWhere(where);
        consumer.start();
        Expect.eventually(() -> {
            // RocketMQ 4 waits ten seconds, then for a rebalance, if a pull is sent elsewhere.
            consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
            Thread.sleep(200);
            return seen.count() > 0 || where == ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
                && Scope.countQueues(consumer, CLEANED) > 0 && !group.equals("gone");
        }, "messages");
        return seen;
    }

    /** The least offset that was seen. */
    private static long first(Seen seen) {
        return seen.all().stream().mapToLong(one -> one.message().getQueueOffset()).min()
            .orElseThrow();
    }
}
