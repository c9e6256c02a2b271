package silomq.grpc;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/** RocketMQ's gRPC clients at one proxy, with the settings that all checks share. */
final class Proxied {
    /** RocketMQ's broker may look for what comes again 20 s late. */
    static final Duration SOON = Duration.ofSeconds(45);
    private static final Duration WAIT = Duration.ofSeconds(2);

    final ClientServiceProvider clients = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;

    Proxied(String address) {
        configuration = ClientConfiguration.newBuilder().setEndpoints(address).enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(10)).build();
    }

    Producer producer(String topic) throws ClientException {
        return producing(topic).build();
    }

    Producer transactions(TransactionChecker checker, String topic) throws ClientException {
        return producing(topic).setTransactionChecker(checker).build();
    }

    private ProducerBuilder producing(String topic) {
        return clients.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic);
    }

    MessageBuilder message(String topic, String body) {
        return clients.newMessageBuilder().setTopic(topic)
                .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    SimpleConsumer simple(String group, String topic, FilterExpression filter)
            throws ClientException {
        return clients.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group).setAwaitDuration(WAIT)
                .setSubscriptionExpressions(Map.of(topic, filter)).build();
    }

    SimpleConsumer simple(String group, String topic) throws ClientException {
        return simple(group, topic, FilterExpression.SUB_ALL);
    }

    void push(String group, String topic, MessageListener listener) throws ClientException {
        clients.newPushConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setMessageListener(listener).build();
    }

    /** Receives until there are so many. Fewer within a time are an error. */
    static List<MessageView> receive(SimpleConsumer consumer, int count, Duration invisible)
            throws ClientException {
        List<MessageView> found = new ArrayList<>();
        long end = System.nanoTime() + SOON.toNanos();
        while (found.size() < count) {
            Checks.that(System.nanoTime() < end, "received %d of %d", found.size(), count);
            found.addAll(consumer.receive(16, invisible));
        }
        return found;
    }

    static void acknowledge(SimpleConsumer consumer, List<MessageView> messages)
            throws ClientException {
        for (MessageView message : messages) {
            consumer.ack(message);
        }
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody().duplicate()).toString();
    }

    static List<String> bodies(List<MessageView> messages) {
        return messages.stream().map(Proxied::body).sorted().toList();
    }
}
