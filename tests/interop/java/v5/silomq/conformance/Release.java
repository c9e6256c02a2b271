package silomq.conformance;

import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** What clients of RocketMQ 5 have under other names than those of RocketMQ 4. */
@SuppressWarnings("deprecation") // of calls that users have
final class Release {
    private Release() {
    }

    static void makeTopic(DefaultMQProducer producer, String topic, int queues)
        throws MQClientException {
        producer.createTopic("TBW102", topic, queues, Map.of());
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }
}
