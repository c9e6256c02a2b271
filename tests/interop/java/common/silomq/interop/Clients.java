package silomq.interop;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * RocketMQ's own clients: NAMES TOPIC COUNT sends that many messages, and consumes them in a group.
 * They find their brokers by the name server at the address NAMES. Prints "sent N" and
 * "consumed N".
 */
public final class Clients {
    private static final long PATIENCE_MS = 60_000;

    private Clients() {}

    public static void main(final String[] words) throws Exception {
        final int count = Integer.parseInt(words[2]);
        send(words[0], words[1], count);
        consume(words[0], words[1], count);
        System.exit(0); // threads of the clients may live on
    }

    private static void send(final String names, final String topic, final int count)
            throws Exception {
        final DefaultMQProducer producer = new DefaultMQProducer("senders");
        producer.setNamesrvAddr(names);
        producer.start();
        int sent = 0;
        final long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (sent < count && System.currentTimeMillis() < deadline) {
            final byte[] body = ("m" + sent).getBytes(StandardCharsets.UTF_8);
            try {
                if (producer.send(new Message(topic, body)).getSendStatus() == SendStatus.SEND_OK) {
                    sent++;
                }
            } catch (final org.apache.rocketmq.client.exception.MQClientException notYet) {
                Thread.sleep(200); // the broker has not registered yet
            }
        }
        producer.shutdown();
        System.out.println("sent " + sent);
    }

    private static void consume(final String names, final String topic, final int count)
            throws Exception {
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("readers");
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> seen.add(new String(one.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        final long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (seen.size() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
        }
        consumer.shutdown();
        System.out.println("consumed " + seen.size());
    }
}
