package silomq.interop;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * The Java client of RocketMQ, driven as the clients in other languages are: one request as JSON
 * in the first argument, one JSON object a line as the answer. See clients.py for the members.
 */
public final class ExchangeClient {
    private final JSONObject wanted;
    private final List<String> topics;

    private ExchangeClient(final JSONObject wanted) {
        this.wanted = wanted;
        this.topics = wanted.getJSONArray("topics").toJavaList(String.class);
    }

    public static void main(final String[] words) throws Exception {
        final JSONObject wanted = JSON.parseObject(words[0]);
        final ExchangeClient client = new ExchangeClient(wanted);
        if ("send".equals(wanted.getString("do"))) {
            client.send();
        } else if ("ask".equals(wanted.getString("do"))) {
            client.ask();
        } else {
            client.consume();
        }
        say(Json.line("done"));
        System.exit(0); // threads of the client may live on
    }

    /** What signs the client's requests; null if they are not signed. */
    private RPCHook signer() {
        final JSONArray words = wanted.getJSONArray("credentials");
        return words == null ? null : Release.signer(words.getString(0), words.getString(1));
    }

    private static void say(final Json line) {
        line.with("at", System.currentTimeMillis());
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private DefaultMQProducer producer(final String group) throws Exception {
        final DefaultMQProducer producer = new DefaultMQProducer(
            group, signer(), wanted.getBooleanValue("traced"), null);
        producer.setNamesrvAddr(wanted.getString("names"));
        producer.start();
        return producer;
    }

    private void ask() throws Exception {
        final DefaultMQProducer producer = producer(wanted.getString("group"));
        final JSONArray messages = wanted.getJSONArray("messages");
        for (int i = 0; i < messages.size(); i++) {
            final JSONObject one = messages.getJSONObject(i);
            say(Json.line("replied")
                .with("body", one.getString("body"))
                .with("reply", Requests.ask(producer, made(one))));
        }
        producer.shutdown();
    }

    private void send() throws Exception {
        final DefaultMQProducer producer = producer(wanted.getString("group"));
        final List<CountDownLatch> answers = new ArrayList<>();
        final List<Message> batch = new ArrayList<>();
        final JSONArray messages = wanted.getJSONArray("messages");
        for (int i = 0; i < messages.size(); i++) {
            final JSONObject one = messages.getJSONObject(i);
            final Message message = made(one);
            final String how = one.getString("how");
            if ("batch".equals(how)) {
                batch.add(message);
            } else if ("oneway".equals(how)) {
                producer.sendOneway(message);
                say(Json.line("sent").with("body", one.getString("body")));
            } else if ("async".equals(how)) {
                answers.add(sendAsync(producer, message));
            } else {
                saySent(message, producer.send(message), 0);
            }
        }
        if (!batch.isEmpty()) {
            final SendResult result = producer.send(batch);
            for (int i = 0; i < batch.size(); i++) {
                saySent(batch.get(i), result, i);
            }
        }
        for (final CountDownLatch answer : answers) {
            answer.await();
        }
        if (wanted.getBooleanValue("traced")) {
            awaitEnd(); // 5.3.3 loses traces at its shutdown
        }
        producer.shutdown();
    }

    /** Returns when the test closes the standard input. */
    private static void awaitEnd() throws IOException {
        while (System.in.read() >= 0) {
            continue;
        }
    }

    private static CountDownLatch sendAsync(
            final DefaultMQProducer producer, final Message message) throws Exception {
        final CountDownLatch answered = new CountDownLatch(1);
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(final SendResult result) {
                saySent(message, result, 0);
                answered.countDown();
            }

            @Override
            public void onException(final Throwable error) {
                error.printStackTrace();
                answered.countDown(); // the missing line tells the test
            }
        });
        return answered;
    }

    private Message made(final JSONObject one) {
        final byte[] body = one.getString("body").getBytes(StandardCharsets.UTF_8);
        final Message message = new Message(topics.get(0), body);
        if (one.containsKey("tags")) {
            message.setTags(one.getString("tags"));
        }
        if (one.containsKey("keys")) {
            message.setKeys(one.getJSONArray("keys").toJavaList(String.class));
        }
        if (one.containsKey("properties")) {
            one.getJSONObject("properties").forEach(
                (name, value) -> message.putUserProperty(name, value.toString()));
        }
        if (one.containsKey("delay")) {
            message.setDelayTimeLevel(one.getIntValue("delay"));
        }
        return message;
    }

    private static void saySent(final Message message, final SendResult result, final int later) {
        say(Json.line("sent")
            .with("body", new String(message.getBody(), StandardCharsets.UTF_8))
            .with("status", result.getSendStatus().ordinal())
            .with("id", result.getMsgId())
            .with("queue", result.getMessageQueue().getQueueId())
            .with("offset", result.getQueueOffset() + later));
    }

    private void consume() throws Exception {
        final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            wanted.getString("group"), signer(), new AllocateMessageQueueAveragely(),
            wanted.getBooleanValue("traced"), null);
        consumer.setNamesrvAddr(wanted.getString("names"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(wanted.getIntValue("most"));
        if (wanted.getBooleanValue("pop")) {
            Release.letTheBrokerDivide(consumer);
        }
        final int refuse = wanted.getIntValue("refuse");
        for (final String topic : topics) {
            consumer.subscribe(topic, wanted.getString("filter"));
        }
        if ("reply".equals(wanted.getString("do"))) {
            Requests.reply(consumer, producer(wanted.getString("group") + "-replies"));
        } else {
            receive(consumer, refuse);
        }
        consumer.start();
        say(Json.line("ready"));
        awaitEnd();
        consumer.shutdown();
    }

    private void receive(final DefaultMQPushConsumer consumer, final int refuse) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean refused = false;
            for (final MessageExt one : messages) {
                sayReceived(one);
                refused |= one.getReconsumeTimes() < refuse;
            }
            return refused
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }

    private void sayReceived(final MessageExt one) {
        final Map<String, String> properties = new LinkedHashMap<>();
        for (final Object name : wanted.getJSONArray("properties")) {
            final String value = one.getProperty(name.toString());
            if (value != null) {
                properties.put(name.toString(), value);
            }
        }
        say(Json.line("received")
            .with("topic", one.getTopic())
            .with("body", new String(one.getBody(), StandardCharsets.UTF_8))
            .with("tags", one.getTags() == null ? "" : one.getTags())
            .with("keys", one.getKeys() == null ? "" : one.getKeys())
            .with("properties", properties)
            .with("queue", one.getQueueId())
            .with("offset", one.getQueueOffset())
            .with("times", one.getReconsumeTimes()));
    }
}
