package silomq.interop;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests and replies, for ExchangeClient. */
final class Requests {
    private static final long PATIENCE_MS = 30_000;

    private Requests() {
    }

    /** The body of the reply to a request. */
    static String ask(final DefaultMQProducer asker, final Message question) throws Exception {
        final CompletableFuture<Message> replied = new CompletableFuture<>();
        asker.request(question, new RequestCallback() {
            @Override
            public void onSuccess(final Message reply) {
                if (reply != null) { // 5.3.3 calls without one when the request is stored
                    replied.complete(reply);
                }
            }

            @Override
            public void onException(final Throwable failure) {
                replied.completeExceptionally(failure);
            }
        }, PATIENCE_MS);
        return text(replied.get(PATIENCE_MS, TimeUnit.MILLISECONDS));
    }

    /** Has a consumer reply to each message, by this producer. */
    static void reply(final DefaultMQPushConsumer consumer, final DefaultMQProducer replier) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (final MessageExt one : messages) {
                    final byte[] body = ("re: " + text(one)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(one, body));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
    }

    private static String text(final Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
