package silomq.interop;

import java.io.IOException;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What RocketMQ 5.3 does differently from RocketMQ 4.9. */
final class Release {
    private Release() {
    }

    static DefaultMessageStore open(MessageStoreConfig config) throws IOException {
        return new DefaultMessageStore(
            config,
            new BrokerStatsManager("interop", false),
            (topic, queueId, offset, tags, time, bits, properties) -> { },
            new BrokerConfig(),
            new ConcurrentHashMap<>());
    }

    static MessageExtBrokerInner newMessage() {
        return new MessageExtBrokerInner();
    }

    /** Gives the message a delay level and the schedule's topic, which is the broker's work. */
    static void delay(MessageExtBrokerInner message, int level) {
        String queueId = String.valueOf(message.getQueueId());
        message.setDelayTimeLevel(level);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_TOPIC, message.getTopic());
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_REAL_QUEUE_ID, queueId);
        message.setTopic(TopicValidator.RMQ_SYS_SCHEDULE_TOPIC);
        message.setQueueId(level - 1);
    }
}
