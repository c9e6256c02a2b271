package silomq.interop;

import java.io.IOException;
import java.io.PrintStream;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;
import org.apache.rocketmq.store.timer.TimerCheckpoint;
import org.apache.rocketmq.store.timer.TimerMessageStore;
import org.apache.rocketmq.store.timer.TimerMetrics;

/** What RocketMQ 5.3 does differently from RocketMQ 4.9. */
final class Release {
    private Release() {
    }

    static DefaultMessageStore open(MessageStoreConfig config) throws IOException {
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        String attribute = System.getProperty("silomq.attribute");
        if (!attribute.isEmpty()) {
            String[] pair = attribute.split(":", 2);
            TopicConfig topic = new TopicConfig(Feature.TOPIC, 1, 1);
            topic.getAttributes().put(pair[0], pair[1]);
            topics.put(Feature.TOPIC, topic);
        }
        BrokerStatsManager stats = new BrokerStatsManager("interop", false);
        MessageArrivingListener deaf =
            (topic, queueId, offset, tags, time, bits, properties) -> { };
        return config.isEnableRocksDBStore()
            ? new RocksDBMessageStore(config, stats, deaf, new BrokerConfig(), topics)
            : new DefaultMessageStore(config, stats, deaf, new BrokerConfig(), topics);
    }

    static RPCHook signer(String accessKey, String secretKey) {
        return new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }

    /** A consumer then asks the broker how it reads a topic: it may be told to pop. */
    static void letTheBrokerDivide(DefaultMQPushConsumer consumer) {
        consumer.setClientRebalance(false);
    }

    static MessageExtBrokerInner newMessage() {
        return new MessageExtBrokerInner();
    }

    /** What a broker does with timers, until so many are delivered and for some time after. */
    static void timers(DefaultMessageStore store, int count, long millis, PrintStream out)
        throws Exception {
        MessageStoreConfig config = store.getMessageStoreConfig();
        String place = config.getStorePathRootDir() + "/config/";
        AtomicInteger delivered = new AtomicInteger();
        TimerMessageStore timers = new TimerMessageStore(
            store, config, new TimerCheckpoint(place + "timercheck"),
            new TimerMetrics(place + "timermetrics"), store.getBrokerStatsManager());
        store.setTimerMessageStore(timers);
        timers.registerEscapeBridgeHook(message -> {
            PutMessageResult result = store.putMessage(message);
            if (!message.getTopic().equals(TimerMessageStore.TIMER_TOPIC)) {
                delivered.incrementAndGet();
            }
            return result;
        });
        if (!timers.load()) {
            throw new IllegalStateException("the timers did not load");
        }
        long began = timers.getQueueOffset();
        long started = System.currentTimeMillis();
        timers.start(true);
        while (delivered.get() < count) {
            Thread.sleep(10);
        }
        Thread.sleep(millis);
        timers.shutdown();
        out.println(Json.line("timers").with("began", began).with("started", started)
            .with("delivered", delivered.get()).with("entered", timers.getQueueOffset()));
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
