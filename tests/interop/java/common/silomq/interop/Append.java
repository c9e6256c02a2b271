package silomq.interop;

import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;

/**
 * Puts messages of all kinds into the topics that are there and into two of its own, and prints for
 * each message what was put and what RocketMQ answered. The same seed gives the same messages.
 */
final class Append {
    private static final String[] WORDS = {"plain", "größe", "заказ", "注文", "🔔", "a/b", "x=y", "ß"};
    private static final int[] SIZES = {1, 20, 200, 2_000, 20_000};
    private static final int QUEUES = 3;
    /** RocketMQ's levels from ten minutes on: nothing is delivered while a test runs. */
    private static final int FIRST_LEVEL = 14;
    private static final int LEVELS = 5;

    private final DefaultMessageStore store;
    private final PrintStream out;
    private final boolean v6;
    private final InetSocketAddress host;

    /** A message before it is put; `delay` is a delay level, 0 for none. */
    private record Draft(
        String topic, int queueId, byte[] body, Map<String, String> properties, int delay, int flag,
        int reconsumeTimes, long bornTimestamp, InetSocketAddress bornHost) {
    }

    Append(DefaultMessageStore store, PrintStream out, boolean v6) {
        this.store = store;
        this.out = out;
        this.v6 = v6;
        this.host = new InetSocketAddress(v6 ? "fd00::a:b" : "10.20.30.40", 10911);
    }

    void run(int count, long seed) throws Exception {
        Random chance = new Random(seed);
        TreeSet<String> names = new TreeSet<>(store.getConsumeQueueTable().keySet());
        names.removeIf(TopicValidator::isSystemTopic);
        names.add("MadeByRocketMQ");
        names.add("%RETRY%interop");
        List<String> topics = new ArrayList<>(names);
        int done = 0;
        while (done < count) {
            String topic = topics.get(chance.nextInt(topics.size()));
            int queueId = chance.nextInt(QUEUES);
            if (chance.nextInt(25) == 0) {
                int members = Math.min(count - done, 1 + chance.nextInt(9));
                List<Draft> drafts = new ArrayList<>();
                for (int i = 0; i < members; i++) {
                    drafts.add(draft(chance, topic, queueId, seed + "-" + (done + i), 0));
                }
                putBatch(drafts);
                done += members;
            } else {
                int delay = chance.nextInt(40) == 0 ? FIRST_LEVEL + chance.nextInt(LEVELS) : 0;
                put(draft(chance, topic, queueId, seed + "-" + done, delay));
                done++;
            }
        }
    }

    private Draft draft(Random chance, String topic, int queueId, String number, int delay) {
        byte[] body = new byte[1 + chance.nextInt(SIZES[chance.nextInt(SIZES.length)])];
        chance.nextBytes(body);
        Map<String, String> properties = new TreeMap<>();
        if (chance.nextBoolean()) {
            properties.put(MessageConst.PROPERTY_TAGS, WORDS[chance.nextInt(WORDS.length)]);
        }
        properties.put(MessageConst.PROPERTY_KEYS, "rmq-" + number + " some-" + chance.nextInt(50)
            + " " + WORDS[chance.nextInt(WORDS.length)] + "-" + chance.nextInt(9));
        if (chance.nextBoolean()) {
            properties.put(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "UNIQUE" + number);
        }
        if (chance.nextInt(3) == 0) {
            properties.put("colour " + WORDS[chance.nextInt(WORDS.length)], "värde " + number);
        }
        byte[] address = new byte[4];
        chance.nextBytes(address);
        return new Draft(
            topic, queueId, body, properties, delay, chance.nextInt(), chance.nextInt(4),
            System.currentTimeMillis() - chance.nextInt(5_000),
            new InetSocketAddress(address(address), 1 + chance.nextInt(65_535)));
    }

    private String address(byte[] b) {
        if (v6) {
            return String.format("fd00::%x:%x", b[0] & 255, b[1] & 255);
        }
        return (b[0] & 255) + "." + (b[1] & 255) + "." + (b[2] & 255) + "." + (b[3] & 255);
    }

    private void put(Draft draft) {
        var message = Release.newMessage();
        message.setTopic(draft.topic());
        message.setQueueId(draft.queueId());
        message.setBody(draft.body());
        MessageAccessor.setProperties(message, new TreeMap<>(draft.properties()));
        if (draft.delay() > 0) {
            Release.delay(message, draft.delay());
        }
        message.setFlag(draft.flag());
        message.setReconsumeTimes(draft.reconsumeTimes());
        message.setBornTimestamp(draft.bornTimestamp());
        message.setBornHost(draft.bornHost());
        message.setStoreHost(host);
        String text = MessageDecoder.messageProperties2String(message.getProperties());
        message.setPropertiesString(text);
        PutMessageResult result = store.putMessage(message);
        print(draft, result, 0, result.getAppendMessageResult().getMsgId());
    }

    /** Messages of a batch share what the batch has: born time and host, and no reconsume times. */
    private void putBatch(List<Draft> drafts) {
        List<Message> members = new ArrayList<>();
        for (Draft draft : drafts) {
            Message member = new Message(draft.topic(), draft.body());
            MessageAccessor.setProperties(member, new TreeMap<>(draft.properties()));
            member.setFlag(draft.flag());
            members.add(member);
        }
        Draft first = drafts.get(0);
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(first.topic());
        batch.setQueueId(first.queueId());
        batch.setBody(MessageDecoder.encodeMessages(members));
        batch.setBornTimestamp(first.bornTimestamp());
        batch.setBornHost(first.bornHost());
        batch.setStoreHost(host);
        PutMessageResult result = store.putMessages(batch);
        String[] ids = result.getAppendMessageResult().getMsgId().split(",");
        for (int i = 0; i < drafts.size(); i++) {
            Draft draft = drafts.get(i);
            Draft stored = new Draft(
                draft.topic(), draft.queueId(), draft.body(), draft.properties(), 0,
                draft.flag(), 0, first.bornTimestamp(), first.bornHost());
            print(stored, result, i, ids[i]);
        }
    }

    private void print(Draft draft, PutMessageResult result, int member, String id) {
        AppendMessageResult answer = result.getAppendMessageResult();
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("refused: " + result);
        }
        out.println(Json.line("put").with("topic", draft.topic()).with("queueId", draft.queueId())
            .with("delay", draft.delay()).with("member", member)
            .with("offset", answer.getWroteOffset()).with("bytes", answer.getWroteBytes())
            .with("queueOffset", answer.getLogicsOffset() + member).with("msgId", id)
            .with("storeTimestamp", answer.getStoreTimestamp())
            .with("flag", draft.flag()).with("reconsumeTimes", draft.reconsumeTimes())
            .with("bornTimestamp", draft.bornTimestamp())
            .with("bornHost", Digests.host(draft.bornHost()))
            .with("storeHost", Digests.host(host)).with("properties", draft.properties())
            .with("bodyLen", draft.body().length).with("bodySha256", Digests.sha256(draft.body())));
    }
}
