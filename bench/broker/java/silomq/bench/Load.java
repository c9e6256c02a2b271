package silomq.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * Load on a broker by RocketMQ's own client: NAMES is the address of the name server. It does one
 * order after the other that it reads from standard input, until that ends. Each prints a line of
 * JSON when its measured part begins, and one with its figures at the end.
 *
 * <p>{@code first topic=T}: one message, tried until it is sent.
 * {@code sync topic=T threads=N size=B warm=MS time=MS}: sends, one at a time in each thread.
 * {@code batch topic=T threads=N size=B messages=N warm=MS time=MS}: the same with batches.
 * {@code async topic=T window=N size=B warm=MS time=MS}: so many sends under way.
 * {@code drain topic=T warm=N count=N}: consumes what is there, the first messages unmeasured.
 * {@code paced topic=T rate=N size=B warm=N count=N}: sends by the clock, and consumes.
 */
public final class Load {
    private static final int TIMEOUT_MS = 30_000;

    private Load() {}

    public static void main(final String[] words) throws Exception {
        Report.keepOutput();
        final String names = words[0];
        final DefaultMQProducer producer = new DefaultMQProducer("bench-senders");
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        final Sending sending = new Sending(producer);
        final Consuming consuming = new Consuming(names, producer);
        final BufferedReader orders =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            final Order order = new Order(line);
            switch (order.what()) {
                case "first" -> sending.first(order);
                case "sync" -> sending.sync(order);
                case "batch" -> sending.batches(order);
                case "async" -> sending.async(order);
                case "drain" -> consuming.drain(order);
                case "paced" -> consuming.paced(order);
                default -> throw new IllegalArgumentException(line);
            }
        }
        producer.shutdown();
        System.exit(0); // threads of the client may live on
    }
}
