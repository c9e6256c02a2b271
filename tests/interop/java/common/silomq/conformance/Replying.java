package silomq.conformance;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Requests of producers, and the replies to them. */
final class Replying {
    private static final int SYSTEM_ERROR = 1;
    private static final String CLUSTER = "DefaultCluster"; // of all servers
    private static final int REQUESTS = 3;

    private Replying() {
    }

    /** Point 48: a reply reaches the requester in time. */
    static void aRequestIsReplied(Scope scope) throws Exception {
        String topic = scope.named("asked");
        scope.makeTopic(topic, 1);
        DefaultMQProducer replier = scope.newProducer(scope.place.names);
        replier.setProducerGroup(scope.named("repliers"));
        replier.start();
        DefaultMQPushConsumer consumer = scope.consumer(scope.named("readers"), topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    byte[] body = ("re: " + text(message)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(message, body));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        consumer.start();
        // One that does not know the topic sends a heart-beat first. Without, a reply finds nobody.
        DefaultMQProducer asker = scope.newProducer(scope.place.names);
        asker.setProducerGroup(scope.named("askers"));
        asker.start();
        for (int i = 0; i < REQUESTS; i++) {
            Message question = Scope.message(topic, "TagA", "question " + i);
            Message reply = ask(asker, question);
            Expect.equal("re: question " + i, text(reply), "the reply");
            Expect.equal(
                question.getProperty(MessageConst.PROPERTY_CORRELATION_ID),
                reply.getProperty(MessageConst.PROPERTY_CORRELATION_ID), "its request");
        }
    }

    /**
     * The reply to a request. The clients of 5.3.3 call back twice, first without a message when
     * the request is stored; their other forms of the call return then.
     */
    private static Message ask(DefaultMQProducer asker, Message question) throws Exception {
        CompletableFuture<Message> replied = new CompletableFuture<>();
        asker.request(question, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                if (reply != null) {
                    replied.complete(reply);
                }
            }

            @Override
            public void onException(Throwable failure) {
                replied.completeExceptionally(failure);
            }
        }, Expect.PATIENCE);
        return replied.get(Expect.PATIENCE, TimeUnit.MILLISECONDS);
    }

    /** Point 48: the replier learns that nobody knows the requester. The reply is stored. */
    static void aReplyToNobodyIsAnError(Scope scope) throws Exception {
        MessageQueue queue = scope.makeTopic(scope.named("nobody"), 1).get(0);
        Message request = new Message();
        MessageAccessor.putProperty(request, MessageConst.PROPERTY_CLUSTER, CLUSTER);
        MessageAccessor.putProperty(request, MessageConst.PROPERTY_CORRELATION_ID, "c");
        MessageAccessor.putProperty(
            request, MessageConst.PROPERTY_MESSAGE_REPLY_TO_CLIENT, scope.named("requester"));
        MessageAccessor.putProperty(request, MessageConst.PROPERTY_MESSAGE_TTL, "3000");
        Message reply = MessageUtil.createReplyMessage(request, "x".getBytes());
        MessageQueue replies = new MessageQueue(reply.getTopic(), queue.getBrokerName(), 0);
        long before = scope.producer().maxOffset(replies);
        try {
            scope.producer().send(reply, replies);
        } catch (MQBrokerException refused) {
            Expect.equal(SYSTEM_ERROR, refused.getResponseCode(), "code");
            Expect.that(
                refused.getErrorMessage().contains(
                    "channel of <" + scope.named("requester") + "> not found."),
                refused.toString());
            Expect.eventually(
                () -> scope.producer().maxOffset(replies) > before, "the reply is stored");
            return;
        }
        throw new AssertionError("the replier was told of no error");
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
