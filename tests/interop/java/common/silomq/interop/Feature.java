package silomq.interop;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;

/** Puts messages that need a feature which few stores use, and waits until they are dispatched. */
final class Feature {
    static final String TOPIC = "featured";
    private static final int INNER_BATCH = 0x80;
    private static final int MESSAGES = 6;

    private final DefaultMessageStore store;

    Feature(DefaultMessageStore store) {
        this.store = store;
    }

    void run() throws Exception {
        boolean batches = System.getProperty("silomq.attribute").endsWith("BatchCQ");
        for (int i = 0; i < MESSAGES; i++) {
            var message = Release.newMessage();
            message.setTopic(TOPIC);
            message.setQueueId(0);
            message.setBody(("message " + i).getBytes(StandardCharsets.UTF_8));
            message.setTags(i % 2 == 0 ? "even" : "odd");
            message.setKeys("key-" + i);
            MessageAccessor.putProperty(
                message, "INNER_MULTI_DISPATCH", i % 2 == 0 ? "%LMQ%one,%LMQ%two" : "%LMQ%one");
            if (batches) {
                List<Message> members = List.of(
                    new Message(TOPIC, new byte[] {1}), new Message(TOPIC, new byte[] {2}));
                message.setBody(MessageDecoder.encodeMessages(new ArrayList<>(members)));
                message.setSysFlag(message.getSysFlag() | INNER_BATCH);
                MessageAccessor.putProperty(message, "INNER_NUM", "2");
            }
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(new InetSocketAddress("10.0.0.1", 1));
            message.setStoreHost(new InetSocketAddress("10.20.30.40", 10911));
            message.setPropertiesString(
                MessageDecoder.messageProperties2String(message.getProperties()));
            PutMessageResult result = store.putMessage(message);
            if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("refused: " + result);
            }
        }
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(10);
        }
    }
}
