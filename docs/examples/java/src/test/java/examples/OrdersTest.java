package examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class OrdersTest {
    private static SiloDev silo;

    @BeforeAll
    static void start() throws Exception {
        silo = new SiloDev();
    }

    @AfterAll
    static void stop() throws Exception {
        silo.close();
    }

    @Test
    void paidOrdersArrive() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(silo.address);
        producer.start();
        send(producer, "order 1", "5");
        send(producer, "order 2", "500");
        assertEquals("order 1", received("TAGS = 'paid' AND amount < 100"));
        assertEquals("order 2", received("amount > 100"));
        producer.shutdown();
    }

    private static void send(DefaultMQProducer producer, String body, String amount)
        throws Exception {
        Message message = new Message("orders", "paid", body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("amount", amount);
        assertEquals(SendStatus.SEND_OK, producer.send(message).getSendStatus());
    }

    /** The body of the first message that passes the filter. */
    private static String received(String filter) throws Exception {
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing-" + filter.hashCode());
        consumer.setNamesrvAddr(silo.address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", MessageSelector.bySql(filter));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> bodies.add(new String(one.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        String body = bodies.poll(30, TimeUnit.SECONDS);
        consumer.shutdown();
        return body;
    }
}
