package silomq.conformance;

import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that are found by their keys and ids. */
@SuppressWarnings("deprecation") // of calls that users have
final class LookUps {
    private static final long HOUR = 3_600_000;

    private LookUps() {
    }

    /** Point 50. */
    static void messagesAreFoundByKey(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("keys"), 1).get(0);
        for (int i = 0; i < 5; i++) {
            Message message = Scope.message(queue.getTopic(), "TagA", "m" + i);
            message.setKeys(List.of("k" + i, "every"));
            scope.send(message, queue);
        }
        Expect.eventually(() -> byKey(scope, queue.getTopic(), "every").size() == 5, "the index");
        List<MessageExt> found = byKey(scope, queue.getTopic(), "k3");
        Expect.equal(1, found.size(), "messages");
        Expect.equal("m3", new String(found.get(0).getBody()), "body");
        Expect.equal(List.of(), byKey(scope, queue.getTopic(), "nobody"), "messages");
    }

    private static List<MessageExt> byKey(Scope scope, String topic, String key)
        throws Exception {
        long now = System.currentTimeMillis();
        try {
            QueryResult result =
                scope.producer().queryMessage(topic, key, 32, now - HOUR, now + HOUR);
            return result.getMessageList();
        } catch (MQClientException none) {
            return List.of();
        }
    }

    /** Point 50. */
    static void aMessageIsFoundByItsIds(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("ids"), 1).get(0);
        SendResult sent = scope.send(Scope.message(queue.getTopic(), "", "found"), queue);
        scope.read(queue, 0, 1);
        MessageExt byOffset =
            scope.producer().viewMessage(queue.getTopic(), sent.getOffsetMsgId());
        Expect.equal("found", new String(byOffset.getBody()), "body");
        Expect.equal(sent.getMsgId(), byOffset.getMsgId(), "id");
        Expect.eventually(() -> byUniqKey(scope, queue.getTopic(), sent.getMsgId()) != null,
            "the index has the unique key");
        MessageExt byKey = byUniqKey(scope, queue.getTopic(), sent.getMsgId());
        Expect.equal("found", new String(byKey.getBody()), "body");
    }

    private static MessageExt byUniqKey(Scope scope, String topic, String id) throws Exception {
        try {
            return scope.producer().getDefaultMQProducerImpl().queryMessageByUniqKey(topic, id);
        } catch (MQClientException none) {
            return null;
        }
    }
}
