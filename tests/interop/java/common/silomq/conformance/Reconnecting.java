package silomq.conformance;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageQueue;

/** Point 62: a producer and a consumer while the server is killed and started again. */
final class Reconnecting {
    /** The server is killed and started by somebody else, and this returns when it is up. */
    @FunctionalInterface
    interface Restart {
        void await() throws Exception;
    }

    private Reconnecting() {
    }

    static void nothingIsLost(Scope scope, Restart restart) throws Exception {
        List<MessageQueue> queues = scope.makeTopic(scope.named("restart"), 4);
        Seen seen = new Seen();
        scope.consumer(scope.named("restart"), queues.get(0).getTopic(), seen).start();
        DefaultMQProducer producer = scope.producer();
        Set<String> stored = ConcurrentHashMap.newKeySet();
        AtomicBoolean ends = new AtomicBoolean();
        Thread sender = new Thread(() -> {
            for (int i = 0; !ends.get(); i++) {
                try {
                    String body = "m" + i;
                    if (producer.send(Scope.message(queues.get(0).getTopic(), "", body))
                        .getSendStatus() == SendStatus.SEND_OK) {
                        stored.add(body);
                    }
                    Thread.sleep(20);
                } catch (Exception notStored) {
                    continue;
                }
            }
        });
        sender.start();
        Expect.eventually(() -> seen.count() > 10, "messages before the restart");
        restart.await();
        int before = stored.size();
        Expect.eventually(() -> stored.size() > before + 20, "messages are sent again");
        ends.set(true);
        sender.join();
        // RocketMQ 4 may wait half a minute for the answer to a pull that was lost with the server.
        long end = System.nanoTime() + 2 * Expect.PATIENCE * 1_000_000;
        while (!missing(stored, seen).isEmpty() && System.nanoTime() < end) {
            Thread.sleep(50);
        }
        Expect.equal(
            Set.of(), missing(stored, seen), "messages of " + stored.size() + " that are lost");
    }

    private static Set<String> missing(Set<String> stored, Seen seen) {
        Set<String> left = new TreeSet<>(stored);
        left.removeAll(new HashSet<>(seen.bodies()));
        return left;
    }
}
