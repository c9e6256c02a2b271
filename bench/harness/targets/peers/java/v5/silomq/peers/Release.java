package silomq.peers;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
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

    /** A message for the store, without what both releases give it. */
    static MessageExtBrokerInner inner(final String properties, final long tagsCode) {
        final MessageExtBrokerInner inner = new MessageExtBrokerInner();
        inner.setPropertiesString(properties);
        inner.setTagsCode(tagsCode);
        return inner;
    }
}
