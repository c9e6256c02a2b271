package silomq.conformance;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;

/** What producers are answered. */
@SuppressWarnings("deprecation") // of calls that users have
final class Sending {
    private static final int MESSAGE_ILLEGAL = 13;

    private Sending() {
    }

    /** Point 10. */
    static void aMessageMakesItsTopic(Scope scope) throws Exception {
        String topic = scope.named("new");
        SendResult result = scope.producer().send(Scope.message(topic, "", "x"));
        Expect.equal(SendStatus.SEND_OK, result.getSendStatus(), "status");
        DefaultMQProducer second = scope.newProducer(scope.place.names);
        second.setProducerGroup(scope.named("second"));
        second.start();
        Expect.within(
            2_000, () -> Scope.queuesOf(second, topic).size() == 4, "a second producer finds it");
        Expect.equal(
            SendStatus.SEND_OK, second.send(Scope.message(topic, "", "y")).getSendStatus(),
            "the status of the second producer's message");
    }

    /** Point 11. */
    static void aStrictServerMakesNoTopic(Scope scope) throws Exception {
        DefaultMQProducer producer = scope.newProducer(scope.place.strict);
        producer.start();
        try {
            producer.send(Scope.message(scope.named("never"), "", "x"));
        } catch (MQClientException refused) {
            Expect.that(
                refused.getMessage().contains("No route info of this topic"), refused.toString());
            return;
        }
        throw new AssertionError("the message was taken");
    }

    /** Point 13. */
    static void aResultSaysWhereTheMessageIs(Scope scope) throws Exception {
        for (MessageQueue queue : scope.makeTopic(scope.named("places"), 3)) {
            for (int offset = 0; offset < 3; offset++) {
                Message message = Scope.message(queue.getTopic(), "TagA", "x");
                SendResult result = scope.send(message, queue);
                Expect.equal(queue, result.getMessageQueue(), "queue");
                Expect.equal((long) offset, result.getQueueOffset(), "offset");
                Expect.equal(
                    MessageClientIDSetter.getUniqID(message), result.getMsgId(), "UNIQ_KEY");
                MessageId id = MessageDecoder.decodeMessageId(result.getOffsetMsgId());
                InetSocketAddress host = (InetSocketAddress) id.getAddress();
                Expect.equal(
                    scope.place.broker,
                    host.getAddress().getHostAddress() + ":" + host.getPort(),
                    "the broker in the message's id");
            }
        }
    }

    /** Point 16. The run looks afterwards how it is stored. */
    static void aLongBodyIsCompressed(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("long"), 1).get(0);
        String body = "five kibibytes: ".repeat(320);
        scope.send(Scope.message(queue.getTopic(), "", body), queue);
        MessageExt found = scope.read(queue, 0, 1).get(0);
        Expect.equal(body, new String(found.getBody(), StandardCharsets.UTF_8), "body");
        Expect.that(found.getStoreSize() < 1_000, "stored: " + found.getStoreSize() + " bytes");
    }

    /** Point 17. */
    static void aBatchTakesOffsetsThatFollowEachOther(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("batch"), 1).get(0);
        scope.send(queue, "", "before", 1);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            batch.add(Scope.message(queue.getTopic(), "TagA", "b" + i));
        }
        SendResult result = scope.producer().send(batch, queue);
        Expect.equal(1L, result.getQueueOffset(), "the first offset");
        List<String> ids = List.of(result.getMsgId().split(","));
        Expect.equal(100, new HashSet<>(ids).size(), "different ids");
        Expect.equal(100, result.getOffsetMsgId().split(",").length, "offset ids");
        List<MessageExt> found = scope.read(queue, 1, 100);
        for (int i = 0; i < 100; i++) {
            MessageExt one = found.get(i);
            Expect.equal((long) i + 1, one.getQueueOffset(), "offset");
            Expect.equal("b" + i, new String(one.getBody(), StandardCharsets.UTF_8), "body");
            Expect.equal(ids.get(i), MessageClientIDSetter.getUniqID(batch.get(i)), "UNIQ_KEY");
            Expect.that(one.getMsgId() != null, "an id");
        }
    }

    /** Point 19. */
    static void aBodyThatIsTooLongIsRefused(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("huge"), 1).get(0);
        DefaultMQProducer producer = scope.newProducer(scope.place.names);
        producer.setProducerGroup(scope.named("huge"));
        producer.setMaxMessageSize(Integer.MAX_VALUE);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        byte[] body = new byte[scope.place.maxMessageSize + 1];
        new Random(1).nextBytes(body);
        try {
            producer.send(new Message(queue.getTopic(), body), queue);
        } catch (MQBrokerException refused) {
            Expect.equal(MESSAGE_ILLEGAL, refused.getResponseCode(), "code");
            Expect.equal(0L, scope.producer().maxOffset(queue), "messages");
            return;
        }
        throw new AssertionError("the message was taken");
    }
}
