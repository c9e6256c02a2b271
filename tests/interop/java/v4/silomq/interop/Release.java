package silomq.interop;

import java.io.IOException;
import java.io.PrintStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What RocketMQ 4.9 does differently from RocketMQ 5.3. */
final class Release {
    private Release() {
    }

    static DefaultMessageStore open(MessageStoreConfig config) throws IOException {
        return new DefaultMessageStore(
            config,
            new BrokerStatsManager("interop", false),
            (topic, queueId, offset, tags, time, bits, properties) -> { },
            new BrokerConfig());
    }

    static void letTheBrokerDivide(DefaultMQPushConsumer consumer) {
        throw new IllegalArgumentException("RocketMQ 4 has no broker that divides");
    }

    static RPCHook signer(String accessKey, String secretKey) {
        throw new UnsupportedOperationException("RocketMQ 4 has the class in another jar");
    }

    static MessageExtBrokerInner newMessage() {
        return new MessageExtBrokerInner();
    }

    static void timers(DefaultMessageStore store, int count, long millis, PrintStream out) {
        throw new UnsupportedOperationException("RocketMQ 4 has no timers");
    }

    /** Gives the message a delay level; the store itself then takes the schedule's topic. */
    static void delay(MessageExtBrokerInner message, int level) {
        message.setDelayTimeLevel(level);
    }
}
