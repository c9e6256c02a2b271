package silomq.conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** How messages come to consumers that push, pull, and pull in the new way. */
@SuppressWarnings("deprecation") // of calls that users have
final class Pulling {
    private Pulling() {
    }

    /** Point 21. */
    static void aMessageWakesAHeldPull(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("wake"), 1).get(0);
        Seen seen = new Seen();
        scope.consumer(scope.named("wake"), queue.getTopic(), seen).start();
        scope.send(queue, "", "first", 1);
        seen.await(1, "it pulls");
        long least = Long.MAX_VALUE; // a busy machine holds one of them up, not all
        for (int i = 1; i <= 10; i++) {
            Thread.sleep(100);
            long sent = System.nanoTime();
            scope.send(queue, "", "m", 1);
            long received = seen.await(i + 1, "it is woken").get(i).nanos();
            least = Math.min(least, (received - sent) / 1_000_000);
        }
        Expect.that(least <= 100, "the fastest of ten messages took " + least + " ms");
    }

    /** Point 24. */
    static void aConsumerBehindTheEndGoesOnThere(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("behind"), 1).get(0);
        scope.send(queue, "", "old", 5);
        String group = scope.named("behind");
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer = scope.consumer(group, queue.getTopic(), seen);
        consumer.start();
        seen.await(5, "all");
        Scope.awaitConsumed(consumer, queue, 5);
        consumer.getDefaultMQPushConsumerImpl().getOffsetStore()
            .updateOffset(queue, 1_000, false);
        consumer.shutdown(); // which commits this offset
        Seen later = new Seen();
        DefaultMQPushConsumer second = scope.consumer(group, queue.getTopic(), later);
        second.start();
        // RocketMQ 4 begins again ten seconds later, and then with the next rebalance.
        int[] sent = {0};
        Expect.eventually(() -> {
            second.getDefaultMQPushConsumerImpl().getmQClientFactory().rebalanceImmediately();
            scope.send(queue, "", "new", 1);
            sent[0]++;
            Thread.sleep(200);
            return later.count() > 0;
        }, "a new message");
        Expect.eventually(() -> later.all().stream().anyMatch(
            one -> one.message().getQueueOffset() == 4 + sent[0]), "the last message");
        Set<Long> offsets = new TreeSet<>();
        later.all().forEach(one -> offsets.add(one.message().getQueueOffset()));
        long first = offsets.iterator().next();
        Expect.that(first >= 5, "old messages came again: " + offsets);
        Expect.equal(5L + sent[0] - first, (long) offsets.size(), "messages from " + first);
    }

    /** Point 49. */
    static void aLitePullConsumerSubscribes(Scope scope) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("subscribed"), 2);
        for (MessageQueue queue : queues) {
            scope.send(queue, "", "q" + queue.getQueueId() + "-", 10);
        }
        DefaultLitePullConsumer consumer = scope.litePull(scope.named("subscribed"));
        consumer.subscribe(queues.get(0).getTopic(), "*");
        consumer.setAutoCommit(false);
        consumer.start();
        Map<Integer, List<Long>> offsets = new TreeMap<>();
        Expect.eventually(() -> {
            for (MessageExt one : consumer.poll(200)) {
                offsets.computeIfAbsent(one.getQueueId(), queue -> new ArrayList<>())
                    .add(one.getQueueOffset());
            }
            return offsets.values().stream().mapToInt(List::size).sum() == 20;
        }, "all messages");
        List<Long> all = List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L);
        Expect.equal(Map.of(0, all, 1, all), offsets, "offsets");
        consumer.commitSync();
        for (MessageQueue queue : queues) {
            Expect.eventually(() -> consumer.committed(queue) == 10, "the offset is committed");
        }
    }

    /** Point 49. */
    static void aLitePullConsumerSeeks(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("assigned"), 1).get(0);
        scope.send(queue, "", "m", 5);
        Thread.sleep(20);
        scope.send(queue, "", "n", 5);
        long time = scope.read(queue, 5, 1).get(0).getStoreTimestamp();
        DefaultLitePullConsumer consumer = scope.litePull(scope.named("assigned"));
        consumer.setAutoCommit(false);
        consumer.assign(List.of(queue));
        consumer.start();
        Expect.equal(5L, consumer.offsetForTimestamp(queue, time), "the offset at that time");
        consumer.seekToBegin(queue);
        Expect.equal(0L, next(consumer), "the offset of the first message");
        consumer.seek(queue, 7);
        Expect.equal(7L, next(consumer), "the offset of the message sought");
        consumer.seekToEnd(queue);
        scope.send(queue, "", "end", 1);
        Expect.equal(10L, next(consumer), "the offset of the message at the end");
    }

    /** The offset of the first message that a consumer has next. */
    private static long next(DefaultLitePullConsumer consumer) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        Expect.eventually(() -> found.addAll(consumer.poll(200)), "a message");
        return found.get(0).getQueueOffset();
    }

    /** Points 49 and 23. */
    static void aPullConsumerPulls(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("pulled"), 1).get(0);
        DefaultMQPullConsumer consumer = scope.pull(scope.named("pulled"));
        Expect.equal(0L, consumer.maxOffset(queue), "the greatest offset of an empty queue");
        scope.send(queue, "", "m", 5);
        List<MessageExt> all = scope.read(queue, 0, 5);
        Expect.equal(5L, consumer.maxOffset(queue), "the greatest offset");
        Expect.equal(0L, consumer.minOffset(queue), "the least offset");
        long first = all.get(0).getStoreTimestamp();
        Expect.equal(first, consumer.earliestMsgStoreTime(queue), "the earliest time");
        Expect.equal(0L, consumer.searchOffset(queue, first), "the offset by time");
        Expect.equal(5, found(consumer, queue, 0, PullStatus.FOUND, 5), "messages");
        Expect.equal(0, found(consumer, queue, 5, PullStatus.NO_NEW_MSG, 5), "messages");
        Expect.equal(0, found(consumer, queue, 6, PullStatus.OFFSET_ILLEGAL, 5), "messages");
        scope.send(queue, "", "m", 1);
        PullResult held = consumer.pullBlockIfNotFound(queue, "*", 5, 32);
        Expect.equal(PullStatus.FOUND, held.getPullStatus(), "status");
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore()
            .updateConsumeOffsetToBroker(queue, 6, false);
        Expect.equal(6L, consumer.fetchConsumeOffset(queue, true), "the committed offset");
    }

    private static int found(
        DefaultMQPullConsumer consumer, MessageQueue queue, long offset, PullStatus status,
        long next) throws Exception {
        PullResult result = consumer.pull(queue, "*", offset, 32);
        Expect.equal(status, result.getPullStatus(), "status at " + offset);
        Expect.equal(next, result.getNextBeginOffset(), "next offset at " + offset);
        return result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
    }
}
