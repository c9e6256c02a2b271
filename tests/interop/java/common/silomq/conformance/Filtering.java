package silomq.conformance;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Subscriptions to some messages of a topic. */
@SuppressWarnings("deprecation") // of calls that users have
final class Filtering {
    private Filtering() {
    }

    /** Point 26. */
    static void tagsFilter(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("tags"), 1).get(0);
        for (int i = 0; i < 20; i++) {
            scope.send(queue, "TagB", "b", 1);
            scope.send(queue, "TagA", "a" + i + "-", 1);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("tags"), queue.getTopic(), "TagA || TagC");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        seen.await(20, "the tag");
        scope.send(queue, "TagB", "b", 1);
        scope.send(queue, "TagA", "last", 1);
        Expect.that(
            seen.await(21, "the tag").stream()
                .allMatch(one -> one.message().getTags().equals("TagA")),
            "another tag was seen");
        PullResult result = scope.pull(scope.named("none")).pull(queue, "TagX", 0, 32);
        Expect.equal(PullStatus.NO_MATCHED_MSG, result.getPullStatus(), "status");
        Expect.that(result.getNextBeginOffset() > 0, "the offset does not advance");
    }

    /** Point 27. */
    static void tagsOfTheSameHashAreDropped(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("hash"), 1).get(0);
        for (String tag : List.of("Aa", "BB", "BB", "Aa")) {
            scope.send(queue, tag, tag, 1);
        }
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("hash"), queue.getTopic(), "Aa");
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        seen.await(2, "the tag");
        Scope.awaitConsumed(consumer, queue, 4);
        Expect.equal(List.of("Aa0", "Aa0"), seen.bodies(), "messages");
    }

    /** Point 28. */
    static void sqlFilters(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("sql"), 1).get(0);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("sql"), queue.getTopic(), (String) null);
        consumer.subscribe(
            queue.getTopic(), MessageSelector.bySql("n BETWEEN 3 AND 5 AND who IS NOT NULL"));
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        for (int i = 0; i < 10; i++) {
            Message message = Scope.message(queue.getTopic(), "", "m" + i);
            message.putUserProperty("n", String.valueOf(i));
            if (i != 4) {
                message.putUserProperty("who", "me");
            }
            scope.send(message, queue);
        }
        seen.await(2, "n is 3 or 5");
        Expect.eventually(() -> scope.producer().maxOffset(queue) == 10, "all are there");
        Thread.sleep(500);
        Expect.equal(Set.of("m3", "m5"), new HashSet<>(seen.bodies()), "messages");
    }

    /** Point 28. */
    static void sqlIsRefusedWhereItIsNotAllowed(Scope scope) throws Exception {
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("sql"), "known", (String) null);
        consumer.setNamesrvAddr(scope.place.strict);
        consumer.subscribe("known", MessageSelector.bySql("n > 3"));
        consumer.registerMessageListener(new Seen().concurrently());
        try {
            consumer.start();
        } catch (MQClientException refused) {
            return;
        }
        throw new AssertionError("the consumer started");
    }

    /** Point 37. That the two are refused in turn is checked on the wire. */
    static void differentSubscriptionsOfAGroupDisturbNobodyElse(Scope scope) throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        Seen seen = new Seen();
        DefaultMQPushConsumer other = scope.consumer(scope.named("other"), "", (String) null);
        other.registerMessageListener(seen.concurrently());
        for (String name : List.of("one", "two")) {
            MessageQueue queue = scope.makeTopic(scope.named(name), 1).get(0);
            scope.consumer(scope.named("flap"), queue.getTopic(), new Seen()).start();
            other.subscribe(queue.getTopic(), "*");
            queues.add(queue);
        }
        other.start();
        for (int i = 1; i <= 30; i++) {
            for (MessageQueue queue : queues) {
                scope.send(queue, "", queue.getTopic() + i + "-", 1);
            }
            Thread.sleep(100); // in all, three heart-beats of each
        }
        Expect.equal(60, seen.await(60, "of another group").size(), "messages");
        Expect.equal(60, new HashSet<>(seen.bodies()).size(), "different messages");
    }
}
