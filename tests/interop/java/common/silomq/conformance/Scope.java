package silomq.conformance;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The clients of one check, its topics and its groups. All clients end with it. */
@SuppressWarnings("deprecation") // of calls that users have
final class Scope implements AutoCloseable {
    final Place place;
    private final String name;
    private final Deque<Runnable> ends = new ArrayDeque<>();
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer reader;

    Scope(Place place, String name) {
        this.place = place;
        this.name = name;
    }

    /** A name of a topic or a group that only this check of this release has. */
    String named(String what) {
        return name + "-" + what + "-" + place.release;
    }

    // -- clients

    private <T extends ClientConfig> T configure(T client, String names) {
        client.setNamesrvAddr(names);
        // A client is told of most changes. What it must find by itself, it shall find soon.
        client.setPollNameServerInterval(1_000);
        client.setHeartbeatBrokerInterval(1_000);
        client.setPersistConsumerOffsetInterval(500);
        client.setPullTimeDelayMillsWhenException(500);
        return client;
    }

    /** A producer that is not started yet. */
    DefaultMQProducer newProducer(String names) {
        DefaultMQProducer one = configure(new DefaultMQProducer(named("senders")), names);
        one.setSendMsgTimeout(15_000); // the machine may be busy
        atEnd(one::shutdown);
        return one;
    }

    /** A producer of transactions that is not started yet. */
    TransactionMQProducer transactions(String group) {
        TransactionMQProducer one = configure(new TransactionMQProducer(group), place.names);
        one.setInstanceName(group + ends.size()); // two of a group are two clients
        one.setSendMsgTimeout(15_000);
        atEnd(one::shutdown);
        return one;
    }

    /** The check's own producer. */
    DefaultMQProducer producer() throws MQClientException {
        if (producer == null) {
            producer = newProducer(place.names);
            producer.start();
        }
        return producer;
    }

    /** A consumer that is not started yet; a new group begins at the first message. */
    DefaultMQPushConsumer consumer(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer one = configure(new DefaultMQPushConsumer(group), place.names);
        one.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        one.setConsumeThreadMin(2);
        one.setConsumeThreadMax(2);
        if (tags != null) {
            one.subscribe(topic, tags);
        }
        atEnd(one::shutdown);
        return one;
    }

    /** A consumer of all messages that is not started yet. */
    DefaultMQPushConsumer consumer(String group, String topic, Seen seen) throws Exception {
        DefaultMQPushConsumer one = consumer(group, topic, "*");
        one.registerMessageListener(seen.concurrently());
        return one;
    }

    DefaultLitePullConsumer litePull(String group) {
        DefaultLitePullConsumer one = configure(new DefaultLitePullConsumer(group), place.names);
        one.setPullThreadNums(2);
        atEnd(one::shutdown);
        return one;
    }

    DefaultMQPullConsumer pull(String group) throws MQClientException {
        DefaultMQPullConsumer one = configure(new DefaultMQPullConsumer(group), place.names);
        one.start();
        atEnd(one::shutdown);
        return one;
    }

    void atEnd(Runnable end) {
        ends.push(end);
    }

    @Override
    public void close() {
        for (Runnable end : ends) {
            try {
                end.run();
            } catch (RuntimeException alreadyEnded) {
                continue;
            }
        }
    }

    // -- topics and messages

    /** A new topic; its queues in their order. */
    List<MessageQueue> makeTopic(String topic, int queues) throws Exception {
        Release.makeTopic(producer(), topic, queues);
        Expect.eventually(() -> queuesOf(producer(), topic).size() == queues, "topic " + topic);
        return queuesOf(producer(), topic);
    }

    /** The queues of a topic that a producer finds; none for an unknown topic. */
    static List<MessageQueue> queuesOf(DefaultMQProducer producer, String topic) {
        try {
            List<MessageQueue> found = new ArrayList<>(producer.fetchPublishMessageQueues(topic));
            found.sort(Comparator.naturalOrder());
            return found;
        } catch (MQClientException unknown) {
            return List.of();
        }
    }

    static Message message(String topic, String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    /** Sends a message, which must be stored. */
    SendResult send(Message message, MessageQueue queue) throws Exception {
        SendResult result = producer().send(message, queue);
        Expect.equal(SendStatus.SEND_OK, result.getSendStatus(), "the status of a message");
        return result;
    }

    /** Sends messages with bodies from PREFIX0 on into a queue. */
    void send(MessageQueue queue, String tag, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            send(message(queue.getTopic(), tag, prefix + i), queue);
        }
    }

    /** The messages of a queue from an offset on, as many as wanted, as soon as they are there. */
    List<MessageExt> read(MessageQueue queue, long from, int wanted) throws Exception {
        if (reader == null) {
            reader = pull(named("reader"));
        }
        List<MessageExt> found = new ArrayList<>();
        Expect.eventually(() -> {
            PullResult result = reader.pull(queue, "*", from + found.size(), 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                found.addAll(result.getMsgFoundList());
            }
            return found.size() >= wanted;
        }, wanted + " messages in " + queue);
        return found.subList(0, wanted);
    }

    // -- consumers that run

    /** Waits until a consumer has so many queues of a topic, and hurries it. */
    static void awaitQueues(DefaultMQPushConsumer consumer, String topic, int count)
        throws Exception {
        DefaultMQPushConsumerImpl inner = consumer.getDefaultMQPushConsumerImpl();
        int[] tries = {0};
        Expect.eventually(() -> {
            if (tries[0]++ % 20 == 10) {
                inner.getmQClientFactory().updateTopicRouteInfoFromNameServer(topic);
                inner.getmQClientFactory().rebalanceImmediately();
            }
            return countQueues(consumer, topic) == count;
        }, count + " queues of " + topic);
    }

    /** The queues of a topic that a consumer has now. */
    static long countQueues(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet().stream().filter(queue -> queue.getTopic().equals(topic)).count();
    }

    /** Waits until a consumer has noted that it has consumed a queue up to an offset. */
    static void awaitConsumed(DefaultMQPushConsumer consumer, MessageQueue queue, long offset)
        throws Exception {
        Expect.eventually(
            () -> consumer.getDefaultMQPushConsumerImpl().getOffsetStore()
                .readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) == offset,
            queue + " is consumed up to " + offset);
    }

    /** Closes the sockets of a consumer, which is all that the servers see of a process's end. */
    static void cut(DefaultMQPushConsumer consumer) {
        consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getMQClientAPIImpl()
            .getRemotingClient().shutdown();
    }
}
