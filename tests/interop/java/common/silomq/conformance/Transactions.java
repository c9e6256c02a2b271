package silomq.conformance;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that are seen when their transaction is committed. */
@SuppressWarnings("deprecation") // of calls that users have
final class Transactions {
    private static final String GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC";
    private static final int TOPIC_NOT_EXIST = 17;

    private Transactions() {
    }

    /**
     * Decides as a message's body says: "commit", "roll back", or at a check what stands behind
     * "later ". Any other body is never decided.
     */
    private static final class Listener implements TransactionListener {
        final Map<String, AtomicInteger> checks = new ConcurrentHashMap<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(new String(message.getBody()));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody());
            checks.computeIfAbsent(body, unused -> new AtomicInteger()).incrementAndGet();
            Expect.that(message.getTransactionId() != null, "a check has the transaction's id");
            return body.startsWith("later ") ? state(body.substring(6)) : state("");
        }

        private static LocalTransactionState state(String word) {
            if (word.startsWith("commit")) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
            return word.startsWith("roll back") ? LocalTransactionState.ROLLBACK_MESSAGE
                : LocalTransactionState.UNKNOW;
        }

        int checksOf(String body) {
            AtomicInteger found = checks.get(body);
            return found == null ? 0 : found.get();
        }
    }

    private static TransactionMQProducer start(Scope scope, String group, Listener listener)
        throws Exception {
        TransactionMQProducer producer = scope.transactions(group);
        producer.setTransactionListener(listener);
        producer.start();
        return producer;
    }

    private static void send(TransactionMQProducer producer, String topic, String body)
        throws Exception {
        SendResult result =
            producer.sendMessageInTransaction(Scope.message(topic, "TagA", body), null);
        Expect.equal(SendStatus.SEND_OK, result.getSendStatus(), "the status of a half");
        Expect.equal(result.getMsgId(), result.getTransactionId(), "the transaction's id");
    }

    /** Point 44. */
    static void whatIsCommittedIsSeenOnce(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("ended"), 1).get(0);
        Listener listener = new Listener();
        TransactionMQProducer producer = start(scope, scope.named("ending"), listener);
        Seen seen = new Seen();
        DefaultMQPushConsumer consumer =
            scope.consumer(scope.named("readers"), queue.getTopic(), seen);
        consumer.start();
        for (String body : List.of("commit 1", "roll back", "later commit", "later roll back",
            "commit 2")) {
            send(producer, queue.getTopic(), body);
        }
        seen.await(3, "what was committed");
        Expect.eventually(() -> listener.checksOf("later roll back") > 0, "a check");
        send(producer, queue.getTopic(), "commit 3");
        seen.await(4, "what was committed at last");
        List<String> bodies = seen.bodies().stream().sorted().toList();
        Expect.equal(List.of("commit 1", "commit 2", "commit 3", "later commit"), bodies, "bodies");
        MessageExt one = seen.all().get(0).message();
        Expect.equal(queue.getTopic(), one.getTopic(), "topic");
        Expect.equal(0, one.getReconsumeTimes(), "times");
        Expect.equal(0, listener.checksOf("commit 1"), "checks of what was decided");
    }

    /** Point 45. */
    static void anotherProducerOfTheGroupIsAsked(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("left"), 1).get(0);
        String group = scope.named("leaving");
        TransactionMQProducer first = start(scope, group, new Listener());
        send(first, queue.getTopic(), "later commit");
        first.getDefaultMQProducerImpl().getmQClientFactory().getMQClientAPIImpl()
            .getRemotingClient().shutdown();
        Listener listener = new Listener();
        // A producer of release 5 knows no broker, and is not known to one, until it sends.
        send(start(scope, group, listener), queue.getTopic(), "roll back");
        Expect.equal("later commit",
            new String(scope.read(queue, 0, 1).get(0).getBody()), "what the second one commits");
        Expect.that(listener.checksOf("later commit") > 0, "the second one was asked");
    }

    /** Point 46. */
    static void whatNobodyDecidesIsGivenUp(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("open"), 1).get(0);
        Listener listener = new Listener();
        TransactionMQProducer producer = start(scope, scope.named("silent"), listener);
        String body = "never " + scope.place.release;
        send(producer, queue.getTopic(), body);
        DefaultMQPullConsumer reader = scope.pull(scope.named("reader"));
        reader.maxOffset(queue);  // now it knows the broker
        MessageQueue gone = new MessageQueue(GIVEN_UP, queue.getBrokerName(), 0);
        long[] next = {0};
        Expect.eventually(() -> {
            PullResult result;
            try {
                result = reader.pull(gone, "*", next[0], 32);
            } catch (MQBrokerException missing) {
                Expect.equal(TOPIC_NOT_EXIST, missing.getResponseCode(), "the code");
                return false;  // RocketMQ makes it when it gives the first one up
            }
            next[0] = result.getNextBeginOffset();
            return result.getPullStatus() == PullStatus.FOUND && result.getMsgFoundList().stream()
                .anyMatch(message -> body.equals(new String(message.getBody())));
        }, "what nobody decides is given up");
        Expect.that(listener.checksOf(body) > 0, "its producer was asked");
        Expect.equal(0L, reader.maxOffset(queue), "messages");
    }
}
