package silomq.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that lock their queues. */
@SuppressWarnings("deprecation") // of calls that users have
final class Orderly {
    /** Far less than the life of a lock. */
    private static final long AT_ONCE = 4_000;

    private Orderly() {
    }

    private static DefaultMQPushConsumer consumer(Scope scope, String group, String topic,
        Seen seen) throws Exception {
        DefaultMQPushConsumer one = scope.consumer(group, topic, "*");
        one.registerMessageListener(seen.orderly());
        return one;
    }

    /** Point 40. */
    static void locksPassOnWithACleanEnd(Scope scope) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("order"), 4);
        String topic = queues.get(0).getTopic();
        Seen seen = new Seen();
        DefaultMQPushConsumer first = consumer(scope, scope.named("order"), topic, seen);
        DefaultMQPushConsumer second = consumer(scope, scope.named("order"), topic, seen);
        first.start();
        Scope.awaitQueues(first, topic, 4);
        sendAll(scope, queues, "first");
        seen.await(20, "in order");
        second.start();
        Scope.awaitQueues(second, topic, 2);
        sendAll(scope, queues, "both");
        seen.await(40, "in order");
        first.shutdown();
        sendAll(scope, queues, "second");
        Expect.within(AT_ONCE, () -> seen.count() >= 60, "the locks pass on");
        Map<Integer, List<Long>> offsets = new TreeMap<>();
        for (Seen.One one : seen.all()) {
            offsets.computeIfAbsent(one.message().getQueueId(), queue -> new ArrayList<>())
                .add(one.message().getQueueOffset());
        }
        for (List<Long> some : offsets.values()) {
            Expect.equal(
                List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L, 11L, 12L, 13L, 14L), some,
                "the order of a queue");
        }
    }

    /** Point 40. */
    static void locksOfAKilledConsumerEnd(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("killed"), 1).get(0);
        String topic = queue.getTopic();
        Seen before = new Seen();
        Seen after = new Seen();
        DefaultMQPushConsumer first = consumer(scope, scope.named("killed"), topic, before);
        first.start();
        scope.send(queue, "", "before", 5);
        before.await(5, "of the first consumer");
        DefaultMQPushConsumer second = consumer(scope, scope.named("killed"), topic, after);
        Scope.cut(first);
        second.start();
        scope.send(queue, "", "after", 5);
        long taken = Expect.within(scope.place.lockLife + Expect.PATIENCE, () -> {
            second.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
            Thread.sleep(100);
            return after.bodies().contains("after4");
        }, "the second consumer has the queue");
        // The first one had renewed its lock up to a third of its life ago.
        Expect.that(
            taken > scope.place.lockLife / 2, "a lock ended after " + taken + " ms, too early");
    }

    /** Point 41. */
    static void aMessageThatFailsIsADeadLetterAtOnce(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("fails"), 1).get(0);
        String group = scope.named("fails");
        Seen seen = new Seen(message -> message.getTags().equals("good"));
        DefaultMQPushConsumer consumer = consumer(scope, group, queue.getTopic(), seen);
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.start();
        scope.send(queue, "bad", "bad", 1);
        scope.send(queue, "good", "good", 1);
        Expect.eventually(() -> seen.bodies().contains("good0"), "the queue goes on");
        List<Seen.One> all = seen.all();
        List<Seen.One> bad = all.stream().filter(one -> one.body().equals("bad0")).toList();
        Expect.equal(3, bad.size(), "tries");
        Expect.equal("good0", all.get(3).body(), "the message behind it comes after it");
        MessageQueue dead = new MessageQueue("%DLQ%" + group, queue.getBrokerName(), 0);
        Expect.eventually(() -> scope.producer().maxOffset(dead) == 1, "a dead letter");
        MessageExt letter = scope.read(dead, 0, 1).get(0);
        Expect.equal("bad0", new String(letter.getBody()), "body");
        long taken = letter.getStoreTimestamp() - bad.get(2).millis();
        Expect.that(taken < 1_000, "a dead letter after " + taken + " ms");
    }

    private static void sendAll(Scope scope, List<MessageQueue> queues, String prefix)
        throws Exception {
        for (MessageQueue queue : queues) {
            scope.send(queue, "", prefix, 5);
        }
    }
}
