package silomq.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Sends as fast as the broker answers, for a time. */
final class Sending {
    private final DefaultMQProducer producer;

    Sending(final DefaultMQProducer producer) {
        this.producer = producer;
    }

    /** Sends that take part in a run. They are counted while it is measured. */
    private static final class Run {
        /** A server that has just started may need several times the time for a first answer. */
        private static final int PATIENCE = 100;

        private volatile boolean measured;
        private volatile boolean ended;
        private final AtomicLong messages = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();

        /** Warms up, measures, and returns the seconds that were measured. */
        double take(final Order order, final List<Thread> threads) throws InterruptedException {
            threads.forEach(Thread::start);
            Thread.sleep(order.number("warm"));
            Report.begin();
            final long start = System.nanoTime();
            measured = true;
            for (int i = 0; i == 0 || (messages.get() == 0 && i < PATIENCE); i++) {
                Thread.sleep(order.number("time"));
            }
            measured = false;
            final double seconds = (System.nanoTime() - start) / 1e9;
            ended = true;
            return seconds;
        }

        Report report(final double seconds) {
            return new Report()
                    .with("messages", messages.get())
                    .with("failed", failed.get())
                    .with("seconds", seconds);
        }
    }

    /** A call that sends something and waits for its answer. */
    private interface Call {
        SendResult send() throws Exception;
    }

    void first(final Order order) throws InterruptedException {
        int failed = 0;
        while (!isSent(() -> producer.send(new Message(order.text("topic"), new byte[1])))) {
            failed++;
            Thread.sleep(10);
        }
        new Report().with("messages", 1).with("failed", failed).print();
    }

    void sync(final Order order) throws InterruptedException {
        final byte[] body = new byte[order.number("size")];
        waiting(order, 1, () -> producer.send(new Message(order.text("topic"), body)));
    }

    void batches(final Order order) throws InterruptedException {
        final byte[] body = new byte[order.number("size")];
        final int messages = order.number("messages");
        waiting(order, messages, () -> {
            final List<Message> batch = new ArrayList<>(messages);
            for (int i = 0; i < messages; i++) {
                batch.add(new Message(order.text("topic"), body));
            }
            return producer.send(batch);
        });
    }

    private static void waiting(final Order order, final int each, final Call call)
            throws InterruptedException {
        final Run run = new Run();
        final List<Thread> threads = new ArrayList<>();
        final List<Latencies> latencies = new ArrayList<>();
        for (int i = 0; i < order.number("threads"); i++) {
            final Latencies own = new Latencies();
            latencies.add(own);
            threads.add(new Thread(() -> repeat(run, each, call, own)));
        }
        final double seconds = run.take(order, threads);
        for (final Thread thread : threads) {
            thread.join();
        }
        final Latencies all = new Latencies();
        latencies.forEach(all::addAll);
        run.report(seconds).with("send", all).print();
    }

    private static void repeat(
            final Run run, final int each, final Call call, final Latencies latencies) {
        while (!run.ended) {
            final long start = System.nanoTime();
            final boolean sent = isSent(call);
            if (run.measured) {
                latencies.add(System.nanoTime() - start);
                (sent ? run.messages : run.failed).addAndGet(each);
            }
        }
    }

    private static boolean isSent(final Call call) {
        try {
            return call.send().getSendStatus() == SendStatus.SEND_OK;
        } catch (final Exception refused) {
            System.err.println(refused);
            return false;
        }
    }

    void async(final Order order) throws InterruptedException {
        final Run run = new Run();
        final int window = order.number("window");
        final Semaphore room = new Semaphore(window);
        final byte[] body = new byte[order.number("size")];
        final SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(final SendResult result) {
                count(result.getSendStatus() == SendStatus.SEND_OK);
            }

            @Override
            public void onException(final Throwable error) {
                System.err.println(error);
                count(false);
            }

            private void count(final boolean sent) {
                if (run.measured) {
                    (sent ? run.messages : run.failed).incrementAndGet();
                }
                room.release();
            }
        };
        final Thread thread = new Thread(() -> {
            while (!run.ended) {
                room.acquireUninterruptibly();
                try {
                    producer.send(new Message(order.text("topic"), body), callback);
                } catch (final Exception refused) {
                    callback.onException(refused);
                }
            }
        });
        final double seconds = run.take(order, List.of(thread));
        thread.join();
        room.acquire(window); // all are answered
        run.report(seconds).print();
    }
}
