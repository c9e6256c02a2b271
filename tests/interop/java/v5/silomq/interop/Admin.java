package silomq.interop;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's mqadmin, many commands in one process: NAMES is the address of the name server. Each
 * line of the standard input is a command, its words with tabs between them. After each it prints
 * one line, the output of the command in base64. Commands of its own are:
 * <ul>
 * <li>@send GROUP TOPIC QUEUES COUNT: sends messages to the queues in turn. The producer stays
 * <li>@consume GROUP TOPIC COUNT: a consumer, which stays. Waits until it has so many messages
 * <li>@stop: ends the consumers and producers
 * </ul>
 */
public final class Admin {
    private static final long PATIENCE_S = 60;
    private static final long EACH_MS = 20;

    private final String names;
    private final List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    private final List<DefaultMQProducer> producers = new ArrayList<>();

    private Admin(final String names) {
        this.names = names;
    }

    public static void main(final String[] words) throws Exception {
        final PrintStream out = System.out;
        final Admin admin = new Admin(words[0]);
        final Thread commands = Thread.currentThread();
        final Thread hurry = new Thread(() -> hurry(commands), "hurry");
        hurry.setDaemon(true);
        hurry.start();
        System.setProperty("rocketmq.namesrv.addr", words[0]);
        final BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            final ByteArrayOutputStream said = new ByteArrayOutputStream();
            final PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            try {
                admin.run(line.split("\t", -1));
            } catch (final Exception error) {
                error.printStackTrace(stream);
            }
            stream.flush();
            out.println(Base64.getEncoder().encodeToString(said.toByteArray()));
            out.flush();
        }
        admin.stop();
        System.exit(0); // threads of the clients may live on
    }

    /** The end of a command waits for threads that sleep for up to 3 s, unless they are woken. */
    private static void hurry(final Thread commands) {
        try {
            while (true) {
                if (Arrays.stream(commands.getStackTrace())
                    .anyMatch(frame -> frame.getClassName().endsWith("ServiceThread"))) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().contains("NettyEventExecutor"))
                        .forEach(Thread::interrupt);
                }
                Thread.sleep(EACH_MS);
            }
        } catch (final InterruptedException over) {
            Thread.currentThread().interrupt();
        }
    }

    private void run(final String[] words) throws Exception {
        switch (words[0]) {
            case "@send" -> send(words[1], words[2], Integer.parseInt(words[3]),
                Integer.parseInt(words[4]));
            case "@consume" -> consume(words[1], words[2], Integer.parseInt(words[3]));
            case "@stop" -> stop();
            default -> MQAdminStartup.main0(Arrays.copyOf(words, words.length), null);
        }
    }

    private void send(final String group, final String topic, final int queues, final int count)
            throws Exception {
        final DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(names);
        producer.setInstanceName(group);
        producer.start();
        producers.add(producer);
        final String broker = producer.fetchPublishMessageQueues(topic).get(0).getBrokerName();
        for (int number = 0; number < count; number++) {
            final byte[] body = ("body " + number).getBytes(StandardCharsets.UTF_8);
            final Message message = new Message(topic, "tag" + number % 2, "key" + number, body);
            producer.send(message, new MessageQueue(topic, broker, number % queues));
        }
    }

    private void consume(final String group, final String topic, final int count)
            throws Exception {
        final CountDownLatch left = new CountDownLatch(count);
        final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(group);
        consumer.setPersistConsumerOffsetInterval(100);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        consumers.add(consumer);
        System.out.println(left.await(PATIENCE_S, TimeUnit.SECONDS) ? "consumed" : "too few");
    }

    private void stop() {
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        producers.forEach(DefaultMQProducer::shutdown);
        consumers.clear();
        producers.clear();
    }
}
