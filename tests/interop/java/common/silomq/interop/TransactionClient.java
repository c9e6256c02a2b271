package silomq.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer of transactions. Arguments: the name server's address, the producer group, the topic.
 * Each line of standard input is the body of a message. Its words say what becomes of the
 * transaction: "commit", "rollback" or "unknown" is the first one, for the local part. The second
 * one is the answer to checks. Prints "sent BODY", and "asked BODY" for each check. A message with
 * the word "immune" is not checked for an hour.
 */
public final class TransactionClient implements TransactionListener {
    private final PrintStream out;

    private TransactionClient(PrintStream out) {
        this.out = out;
    }

    private static LocalTransactionState state(String word) {
        return switch (word) {
            case "commit" -> LocalTransactionState.COMMIT_MESSAGE;
            case "rollback" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    private static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(body(message).split(" ")[0]);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        synchronized (out) {
            out.println("asked " + body(message));
        }
        return state(body(message).split(" ")[1]);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        TransactionMQProducer producer = new TransactionMQProducer(arguments[1]);
        producer.setNamesrvAddr(arguments[0]);
        producer.setTransactionListener(new TransactionClient(out));
        producer.setSendMsgTimeout(20_000);
        // The broker asks those only of whom it has heard.
        producer.setHeartbeatBrokerInterval(500);
        producer.start();
        producer.getDefaultMQProducerImpl().getMqClientFactory()
            .updateTopicRouteInfoFromNameServer(arguments[2]);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Message message =
                new Message(arguments[2], line.getBytes(StandardCharsets.UTF_8));
            if (line.contains("immune")) {
                message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", "3600");
            }
            producer.sendMessageInTransaction(message, null);
            synchronized (out) {
                out.println("sent " + line);
            }
        }
        producer.shutdown();
        System.exit(0);
    }
}
