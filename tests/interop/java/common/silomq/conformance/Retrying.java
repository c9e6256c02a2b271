package silomq.conformance;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that come later: because they were not consumed, or because they were sent so. */
@SuppressWarnings("deprecation") // of calls that users have
final class Retrying {
    /** How far a delivery may be from its time: timers have whole seconds, machines are busy. */
    private static final long SLACK = 1_500;
    private static final int FIRST_RETRY_LEVEL = 3;

    private Retrying() {
    }

    /** Points 38 and 39. */
    static void aMessageThatFailsComesBackAndDies(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("fails"), 1).get(0);
        String group = scope.named("fails");
        Seen seen = new Seen(message -> message.getTags().equals("good"));
        DefaultMQPushConsumer consumer = scope.consumer(group, queue.getTopic(), seen);
        consumer.setMaxReconsumeTimes(2);
        consumer.start();
        Scope.awaitQueues(consumer, "%RETRY%" + group, 1);
        scope.send(queue, "bad", "bad", 1);
        scope.send(queue, "good", "good", 1);
        Expect.eventually(() -> seen.count() == 4, "one message is consumed, one thrice");
        List<Seen.One> bad =
            seen.all().stream().filter(one -> one.body().equals("bad0")).toList();
        Expect.equal(3, bad.size(), "tries");
        for (int i = 0; i < 3; i++) {
            MessageExt message = bad.get(i).message();
            Expect.equal(i, message.getReconsumeTimes(), "reconsumeTimes");
            Expect.equal(queue.getTopic(), message.getTopic(), "topic");
            if (i > 0) {
                long delay = scope.place.delays.get(FIRST_RETRY_LEVEL - 1 + i - 1);
                long taken = message.getStoreTimestamp() - bad.get(i - 1).millis();
                Expect.that(
                    Math.abs(taken - delay) < SLACK, taken + " ms, expected " + delay);
            }
        }
        MessageQueue dead = new MessageQueue("%DLQ%" + group, queue.getBrokerName(), 0);
        Expect.eventually(
            () -> scope.producer().maxOffset(dead) == 1, "the message is a dead letter");
        MessageExt letter = scope.read(dead, 0, 1).get(0);
        Expect.equal("bad0", new String(letter.getBody()), "body");
        Expect.equal(queue.getTopic(), letter.getProperty("RETRY_TOPIC"), "topic");
    }

    /** Point 43. */
    static void aDelayLevelDelays(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("level"), 1).get(0);
        Seen seen = new Seen();
        scope.consumer(scope.named("level"), queue.getTopic(), seen).start();
        for (int level = 1; level <= 3; level++) {
            Message message = Scope.message(queue.getTopic(), "", "level" + level);
            message.setDelayTimeLevel(level);
            scope.send(message, queue);
        }
        for (Seen.One one : seen.await(3, "delayed")) {
            int level = Integer.parseInt(one.body().substring("level".length()));
            check(one, scope.place.delays.get(level - 1));
        }
    }

    /** Point 43, of RocketMQ 5. */
    static void aTimerDelays(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("timer"), 1).get(0);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("timer"), queue.getTopic(), (String) null);
        consumer.subscribe(queue.getTopic(), MessageSelector.byTag("*"));
        consumer.registerMessageListener(seen.concurrently());
        consumer.start();
        Message message = Scope.message(queue.getTopic(), "", "timer");
        MessageAccessor.putProperty(message, "TIMER_DELAY_SEC", "5");
        scope.send(message, queue);
        check(seen.await(1, "delayed").get(0), 5_000);
    }

    private static void check(Seen.One one, long delay) {
        MessageExt message = one.message();
        long taken = message.getStoreTimestamp() - message.getBornTimestamp();
        Expect.that(
            Math.abs(taken - delay) <= SLACK, one.body() + ": " + taken + " ms, not " + delay);
    }
}
