package silomq.grpc;

import static silomq.grpc.Proxied.acknowledge;
import static silomq.grpc.Proxied.bodies;
import static silomq.grpc.Proxied.body;
import static silomq.grpc.Proxied.receive;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * What RocketMQ's gRPC client does at a proxy. The arguments are the proxy's address and names of
 * checks; without names all run. They run at the same time. Each prints `passed NAME`, or
 * `failed NAME` and why. Each has a topic and a group of its own name, which the test has made.
 */
public final class Checks {
    private static final Duration INVISIBLE = Duration.ofSeconds(30);

    private interface Check {
        void run(Proxied proxied, String topic) throws Exception;
    }

    private static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("simple", Checks::simple);
        CHECKS.put("filters", Checks::filters);
        CHECKS.put("invisible", Checks::invisible);
        CHECKS.put("push", Checks::push);
        CHECKS.put("fifo", Checks::fifo);
        CHECKS.put("delay", Checks::delay);
        CHECKS.put("recall", Checks::recall);
        CHECKS.put("transaction", Checks::transaction);
        CHECKS.put("forgotten", Checks::forgotten);
        CHECKS.put("refusals", Checks::refusals);
    }

    private Checks() {
    }

    public static void main(String[] words) throws InterruptedException {
        Proxied proxied = new Proxied(words[0]);
        List<String> told = List.of(words).subList(1, words.length);
        List<String> names = told.isEmpty() ? List.copyOf(CHECKS.keySet()) : told;
        ExecutorService all = Executors.newCachedThreadPool();
        for (String name : names) {
            all.execute(() -> run(proxied, name));
        }
        all.shutdown();
        boolean done = all.awaitTermination(2, TimeUnit.MINUTES);
        Runtime.getRuntime().halt(done ? 0 : 1);  // the clients' threads may stay
    }

    private static void run(Proxied proxied, String name) {
        long begin = System.nanoTime();
        String result = "passed";
        try {
            CHECKS.get(name).run(proxied, name);
        } catch (Exception | AssertionError error) {
            result = "failed";
            error.printStackTrace();
        }
        System.out.printf("%s %s %d ms%n", result, name, (System.nanoTime() - begin) / 1_000_000);
    }

    static void that(boolean truth, String otherwise, Object... values) {
        if (!truth) {
            throw new AssertionError(String.format(otherwise, values));
        }
    }

    private static void same(Object expected, Object found, String what) {
        that(expected.equals(found), "%s: %s, and not %s", what, found, expected);
    }

    /** Everything of a message arrives; what is acknowledged does not come again. */
    private static void simple(Proxied proxied, String topic) throws Exception {
        List<String> sent = numbered(30);
        try (Producer producer = proxied.producer(topic);
                SimpleConsumer consumer = proxied.simple(topic, topic)) {
            for (String body : sent) {
                producer.send(proxied.message(topic, body)
                        .setTag("t").setKeys(body, "k").addProperty("p", body).build());
            }
            List<MessageView> found = receive(consumer, sent.size(), Duration.ofSeconds(10));
            same(sent, bodies(found), "received");
            for (MessageView message : found) {
                same("t", message.getTag().orElse(""), "tag");
                same(Set.of(body(message), "k"), Set.copyOf(message.getKeys()), "keys");
                same(body(message), message.getProperties().get("p"), "property");
                same(1, message.getDeliveryAttempt(), "attempt");
            }
            acknowledge(consumer, found);
            long end = System.nanoTime() + Duration.ofSeconds(11).toNanos();
            while (System.nanoTime() < end) {
                same(List.of(), bodies(consumer.receive(16, INVISIBLE)), "received again");
            }
        }
    }

    private static void filters(Proxied proxied, String topic) throws Exception {
        FilterExpression tags = new FilterExpression("a || b");
        FilterExpression sql =
                new FilterExpression("size > 5 AND colour = 'red'", FilterExpressionType.SQL92);
        try (Producer producer = proxied.producer(topic);
                SimpleConsumer tagged = proxied.simple(topic, topic, tags);
                SimpleConsumer matching = proxied.simple(topic + "-sql", topic, sql)) {
            for (String tag : List.of("a", "b", "c")) {
                for (String size : List.of("3", "8")) {
                    String colour = tag.equals("b") ? "blue" : "red";
                    producer.send(proxied.message(topic, tag + size).setTag(tag)
                            .addProperty("size", size).addProperty("colour", colour).build());
                }
            }
            List<MessageView> found = receive(tagged, 4, INVISIBLE);
            same(List.of("a3", "a8", "b3", "b8"), bodies(found), "by tag");
            acknowledge(tagged, found);
            found = receive(matching, 2, INVISIBLE);
            same(List.of("a8", "c8"), bodies(found), "by SQL");
            acknowledge(matching, found);
        }
    }

    /** A changed time counts from now. The receipt that it replaced is worth nothing. */
    private static void invisible(Proxied proxied, String topic) throws Exception {
        try (Producer producer = proxied.producer(topic);
                SimpleConsumer consumer = proxied.simple(topic, topic)) {
            producer.send(proxied.message(topic, "again").build());
            MessageView first = receive(consumer, 1, INVISIBLE).get(0);
            long begin = System.nanoTime();
            consumer.changeInvisibleDuration(first, Duration.ofSeconds(3));
            MessageView second = receive(consumer, 1, Duration.ofSeconds(10)).get(0);
            long waited = (System.nanoTime() - begin) / 1_000_000;
            that(waited >= 2_900 && waited < 15_000, "it came again after %d ms", waited);
            same(2, second.getDeliveryAttempt(), "attempt");
            same(first.getMessageId(), second.getMessageId(), "id");
            MessageView third = receive(consumer, 1, INVISIBLE).get(0);
            same(3, third.getDeliveryAttempt(), "attempt, after the time ran out");
            consumer.ack(third);
        }
    }

    /**
     * A push consumer gets all, and once more what it refused. It waits for its last requests when
     * it is closed, up to 20 s: so the program's end closes it.
     */
    private static void push(Proxied proxied, String topic) throws Exception {
        BlockingQueue<MessageView> found = new LinkedBlockingQueue<>();
        proxied.push(topic, topic, message -> {
            found.add(message);
            boolean refused = body(message).equals("bad") && message.getDeliveryAttempt() == 1;
            return refused ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        });
        try (Producer producer = proxied.producer(topic)) {
            List<String> sent = new ArrayList<>(numbered(20));
            sent.add("bad");
            for (String body : sent) {
                producer.send(proxied.message(topic, body).build());
            }
            sent.add(0, "bad");
            same(sent.stream().sorted().toList(), bodies(take(found, sent.size())), "received");
        }
    }

    /** The messages of one message group come in their order. */
    private static void fifo(Proxied proxied, String topic) throws Exception {
        BlockingQueue<MessageView> found = new LinkedBlockingQueue<>();
        proxied.push(topic, topic, message -> {
            found.add(message);
            return ConsumeResult.SUCCESS;
        });
        try (Producer producer = proxied.producer(topic)) {
            List<String> sent = numbered(30);
            for (String body : sent) {
                producer.send(proxied.message(topic, body).setMessageGroup("one").build());
            }
            List<MessageView> received = take(found, sent.size());
            same(sent, received.stream().map(Proxied::body).toList(), "order");
            same("one", received.get(0).getMessageGroup().orElse(""), "message group");
        }
    }

    private static void delay(Proxied proxied, String topic) throws Exception {
        try (Producer producer = proxied.producer(topic);
                SimpleConsumer consumer = proxied.simple(topic, topic)) {
            long due = System.currentTimeMillis() + 4_000;
            producer.send(proxied.message(topic, "later").setDeliveryTimestamp(due).build());
            MessageView found = receive(consumer, 1, INVISIBLE).get(0);
            long late = System.currentTimeMillis() - due;
            that(late >= -100 && late < 10_000, "it came %d ms after its time", late);
            consumer.ack(found);
        }
    }

    /** Of two messages that wait for their time one is called back. */
    private static void recall(Proxied proxied, String topic) throws Exception {
        try (Producer producer = proxied.producer(topic);
                SimpleConsumer consumer = proxied.simple(topic, topic)) {
            long due = System.currentTimeMillis() + 5_000;
            SendReceipt recalled = producer.send(
                    proxied.message(topic, "recalled").setDeliveryTimestamp(due).build());
            producer.send(
                    proxied.message(topic, "kept").setDeliveryTimestamp(due + 1_000).build());
            producer.recallMessage(topic, recalled.getRecallHandle());
            same(List.of("kept"), bodies(receive(consumer, 1, INVISIBLE)), "received");
        }
    }

    private static void transaction(Proxied proxied, String topic) throws Exception {
        try (Producer producer = proxied.transactions(
                message -> TransactionResolution.UNKNOWN, topic);
                SimpleConsumer consumer = proxied.simple(topic, topic)) {
            Transaction first = producer.beginTransaction();
            producer.send(proxied.message(topic, "committed").addProperty("p", "v").build(), first);
            Transaction second = producer.beginTransaction();
            producer.send(proxied.message(topic, "rolled back").build(), second);
            same(List.of(), bodies(consumer.receive(16, INVISIBLE)), "before the commit");
            second.rollback();
            first.commit();
            List<MessageView> found = receive(consumer, 1, INVISIBLE);
            same(List.of("committed"), bodies(found), "received");
            same("v", found.get(0).getProperties().get("p"), "property");
            acknowledge(consumer, found);
            same(List.of(), bodies(consumer.receive(16, INVISIBLE)), "after the commit");
        }
    }

    /** The broker asks the proxy, and the proxy the producer, what became of a transaction. */
    private static void forgotten(Proxied proxied, String topic) throws Exception {
        BlockingQueue<MessageView> asked = new LinkedBlockingQueue<>();
        try (Producer producer = proxied.transactions(message -> {
            asked.add(message);
            boolean good = body(message).equals("good");
            return good ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
        }, topic); SimpleConsumer consumer = proxied.simple(topic, topic)) {
            for (String body : List.of("bad", "good")) {
                producer.send(proxied.message(topic, body).build(), producer.beginTransaction());
            }
            List<MessageView> found = receive(consumer, 1, INVISIBLE);
            same(List.of("good"), bodies(found), "received");
            acknowledge(consumer, found);
            List<String> forgotten = new ArrayList<>(List.of("bad", "good"));
            while (!forgotten.isEmpty()) {
                forgotten.remove(body(take(asked, 1).get(0)));
            }
            same(List.of(), bodies(consumer.receive(16, INVISIBLE)), "after the checks");
        }
    }

    /** The proxy knows which topics there are, and what kind of messages each takes. */
    private static void refusals(Proxied proxied, String topic) throws Exception {
        try (Producer producer = proxied.producer(topic)) {
            long due = System.currentTimeMillis() + 1_000;
            Message delayed = proxied.message(topic, "x").setDeliveryTimestamp(due).build();
            Message ordered = proxied.message(topic, "x").setMessageGroup("g").build();
            Message lost = proxied.message("no-such-topic", "x").build();
            refused("delayed", () -> producer.send(delayed));
            refused("of a group", () -> producer.send(ordered));
            refused("of no topic", () -> producer.send(lost));
            refused("of no handle", () -> producer.recallMessage(topic, "no-handle"));
        }
    }

    private interface Request {
        void send() throws ClientException;
    }

    private static void refused(String what, Request request) {
        try {
            request.send();
        } catch (ClientException | IllegalArgumentException error) {
            System.out.printf("refused %s: %s%n", what, error.getMessage());
            return;
        }
        throw new AssertionError("a message " + what + " was taken");
    }

    private static List<String> numbered(int count) {
        return IntStream.range(10, 10 + count).mapToObj(number -> "m" + number).toList();
    }

    private static List<MessageView> take(BlockingQueue<MessageView> queue, int count)
            throws InterruptedException {
        List<MessageView> found = new ArrayList<>();
        while (found.size() < count) {
            MessageView message = queue.poll(Proxied.SOON.toSeconds(), TimeUnit.SECONDS);
            that(message != null, "received %d of %d", found.size(), count);
            found.add(message);
        }
        return found;
    }
}
