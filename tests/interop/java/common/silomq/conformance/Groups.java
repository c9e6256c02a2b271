package silomq.conformance;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers of one group that share its messages, and others that do not. */
@SuppressWarnings("deprecation") // of calls that users have
final class Groups {
    /** Long enough on a busy machine. A consumer looks by itself each 20 seconds. */
    private static final long SOON = 5_000;

    private Groups() {
    }

    /** Point 34. */
    static void consumersShareTheQueues(Scope scope) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("share"), 4);
        String topic = queues.get(0).getTopic();
        Seen seen = new Seen();
        DefaultMQPushConsumer first = scope.consumer(scope.named("share"), topic, seen);
        DefaultMQPushConsumer second = scope.consumer(scope.named("share"), topic, seen);
        first.start();
        Scope.awaitQueues(first, topic, 4);
        second.start();
        Expect.within(
            SOON,
            () -> Scope.countQueues(first, topic) == 2 && Scope.countQueues(second, topic) == 2,
            "each has two queues");
        for (MessageQueue queue : queues) {
            scope.send(queue, "", "shared" + queue.getQueueId(), 5);
        }
        seen.await(20, "from two consumers");
        Scope.cut(second);
        Expect.within(
            SOON, () -> Scope.countQueues(first, topic) == 4, "the other's queues are taken over");
        Expect.equal(20, new HashSet<>(seen.bodies()).size(), "messages");
    }

    /** Point 34. */
    static void aConsumerTakesItsLeave(Scope scope) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("leave"), 4);
        String topic = queues.get(0).getTopic();
        DefaultMQPushConsumer first = scope.consumer(scope.named("leave"), topic, new Seen());
        DefaultMQPushConsumer second = scope.consumer(scope.named("leave"), topic, new Seen());
        first.start();
        second.start();
        Scope.awaitQueues(first, topic, 2);
        Scope.awaitQueues(second, topic, 2);
        second.shutdown();
        Expect.within(
            SOON, () -> Scope.countQueues(first, topic) == 4, "the other's queues are taken over");
    }

    /** Point 42. The run looks afterwards whether the broker was told offsets. */
    static void everybodyHasABroadcast(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("broadcast"), 1).get(0);
        List<Seen> seen = new ArrayList<>();
        for (String name : List.of("one", "two")) {
            Seen own = new Seen();
            DefaultMQPushConsumer consumer =
                scope.consumer(scope.named("broadcast"), queue.getTopic(), own);
            Release.broadcast(consumer);
            consumer.setInstanceName(scope.named(name));
            consumer.start();
            Scope.awaitQueues(consumer, queue.getTopic(), 1);
            seen.add(own);
        }
        Set<String> sent = new HashSet<>();
        for (int i = 0; i < 10; i++) {
            Message message = Scope.message(queue.getTopic(), "", "m" + i);
            scope.send(message, queue);
            sent.add("m" + i);
        }
        for (Seen own : seen) {
            Expect.equal(10, own.await(10, "a broadcast").size(), "messages");
            Expect.equal(sent, new HashSet<>(own.bodies()), "messages");
        }
        Thread.sleep(1_200); // longer than the time after which offsets are committed
    }
}
