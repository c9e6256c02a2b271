package silomq.peers;

import java.io.IOException;
import java.net.SocketAddress;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What RocketMQ 5.3 does differently from RocketMQ 4.9. */
final class Release {
    private Release() {}

    static DefaultMessageStore open(
            final MessageStoreConfig config, final List<String> names, final int queues)
            throws IOException {
        final ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        names.forEach(name -> topics.put(name, new TopicConfig(name, queues, queues)));
        return new DefaultMessageStore(
                config, new BrokerStatsManager("bench", false),
                (topic, queueId, offset, tags, time, bits, properties) -> {},
                new BrokerConfig(), topics);
    }

    static MessageExtBrokerInner inner(
            final Message message, final int queue, final SocketAddress host) {
        final MessageExtBrokerInner inner = new MessageExtBrokerInner();
        inner.setTopic(message.getTopic());
        inner.setQueueId(queue);
        inner.setBody(message.getBody());
        MessageAccessor.setProperties(inner, message.getProperties());
        inner.setPropertiesString(MessageDecoder.messageProperties2String(inner.getProperties()));
        inner.setBornTimestamp(System.currentTimeMillis());
        inner.setBornHost(host);
        inner.setStoreHost(host);
        final String tags = message.getTags();
        inner.setTagsCode(tags == null ? 0 : tags.hashCode());
        return inner;
    }
}
