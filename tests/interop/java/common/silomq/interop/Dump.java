package silomq.interop;

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.index.IndexService;

/**
 * Prints what RocketMQ serves from a store: first what it reads from every queue, then every record
 * of the log, then look-ups by time and by key. What does not fit together is a line `wrong`.
 */
final class Dump {
    private static final int BLANK = 0xCBD43194;
    private static final String LIGHT = "%LMQ%";

    private final DefaultMessageStore store;
    private final PrintStream out;
    /** What the queues gave, by place in the log. */
    private final Map<Long, Read> reads = new HashMap<>();
    private int wrongs;

    /** A message as a consumer gets it: its queue, its place there, its entry, its checksum. */
    private record Read(
        String topic, int queueId, long queueOffset, int size, long tags, long crc) {
    }

    Dump(DefaultMessageStore store, PrintStream out) {
        this.store = store;
        this.out = out;
    }

    void run(List<String> queries) throws Exception {
        Map<String, List<Integer>> queues = new TreeMap<>();
        store.getConsumeQueueTable().forEach(
            (topic, parts) -> queues.put(topic, new ArrayList<>(new TreeMap<>(parts).keySet())));
        List<Json> found = new ArrayList<>();
        for (Map.Entry<String, List<Integer>> topic : queues.entrySet()) {
            for (int queueId : topic.getValue()) {
                found.add(topic.getKey().startsWith(LIGHT)
                    ? readLight(topic.getKey(), queueId)
                    : readQueue(topic.getKey(), queueId));
            }
        }
        walk();
        found.forEach(out::println);
        for (String query : queries) {
            String[] words = query.split("\t");
            out.println(words[0].equals("time") ? byTime(words) : byKey(words));
        }
        reads.keySet().stream().sorted().limit(20).forEach(
            place -> wrong("a queue leads to " + place + ", where the log has no record"));
        int untold = Math.max(0, reads.size() - 20);
        out.println(Json.line("end").with("inconsistencies", wrongs + untold));
    }

    private void wrong(String why) {
        wrongs++;
        out.println(Json.line("wrong").with("why", why));
    }

    /** A light queue leads to records of other queues: what a consumer gets, in order. */
    private Json readLight(String topic, int queueId) throws Exception {
        long first = store.getMinOffsetInQueue(topic, queueId);
        long last = store.getMaxOffsetInQueue(topic, queueId);
        List<Long> places = new ArrayList<>();
        List<String> said = new ArrayList<>();
        for (long next = first; next < last; next++) {
            GetMessageResult result = store.getMessage("interop", topic, queueId, next, 1, null);
            for (ByteBuffer record : result.getMessageBufferList()) {
                MessageExt message = MessageDecoder.decode(record, true, false);
                places.add(message.getCommitLogOffset());
                said.add(message.getProperty("INNER_MULTI_QUEUE_OFFSET"));
            }
            result.release();
        }
        return Json.line("light").with("topic", topic).with("queueId", queueId)
            .with("minOffset", first).with("maxOffset", last).with("places", places)
            .with("said", said);
    }

    private Json readQueue(String topic, int queueId) throws Exception {
        long first = store.getMinOffsetInQueue(topic, queueId);
        long last = store.getMaxOffsetInQueue(topic, queueId);
        ConsumeQueue entries = (ConsumeQueue) store.getConsumeQueueTable().get(topic).get(queueId);
        long next = first;
        int count = 0;
        while (next < last) {
            GetMessageResult result = store.getMessage("interop", topic, queueId, next, 32, null);
            List<ByteBuffer> records = result.getMessageBufferList();
            if (records.isEmpty()) {
                wrong(topic + "-" + queueId + " at " + next + ": " + result.getStatus());
                result.release();
                break;
            }
            for (int i = 0; i < records.size(); i++) {
                note(topic, queueId, next + i, records.get(i), entries);
            }
            count += records.size();
            if (result.getNextBeginOffset() != next + records.size()) {
                wrong(topic + "-" + queueId + " at " + next + ": not what is next: "
                    + result.getNextBeginOffset());
            }
            next = result.getNextBeginOffset();
            result.release();
        }
        return Json.line("queue").with("topic", topic).with("queueId", queueId)
            .with("minOffset", first).with("maxOffset", last).with("read", count)
            .with("earliestTime", store.getEarliestMessageTime(topic, queueId))
            .with("maxPhysicOffset", entries.getMaxPhysicOffset());
    }

    private void note(
        String topic, int queueId, long queueOffset, ByteBuffer record, ConsumeQueue entries) {
        SelectMappedBufferResult entry = entries.getIndexBuffer(queueOffset);
        ByteBuffer bytes = entry.getByteBuffer();
        long place = bytes.getLong();
        Read read = new Read(
            topic, queueId, queueOffset, bytes.getInt(), bytes.getLong(), Digests.crc(record));
        entry.release();
        if (reads.put(place, read) != null) {
            wrong("two queue entries lead to " + place);
        }
    }

    /** Every record of the log in order, from the first file to where RocketMQ ends it. */
    private void walk() {
        long start = store.getMinPhyOffset();
        long end = store.getMaxPhyOffset();
        long at = start;
        int messages = 0;
        String stop = null;
        while (at < end && stop == null) {
            SelectMappedBufferResult found = store.getCommitLogData(at);
            if (found == null) {
                stop = "no data";
                break;
            }
            ByteBuffer data = found.getByteBuffer();
            int size = data.getInt(0);
            if (data.getInt(4) == BLANK) {
                out.println(Json.line("blank").with("commitLogOffset", at).with("size", size));
                at += size;
            } else {
                MessageExt message = MessageDecoder.decode(data.slice(0, size), true, false);
                if (message == null) {
                    stop = "cannot be decoded";
                } else {
                    out.println(describe(at, message, data.slice(0, size)));
                    messages++;
                    at += size;
                }
            }
            found.release();
        }
        StoreCheckpoint checkpoint = store.getStoreCheckpoint();
        out.println(Json.line("store").with("minPhyOffset", start).with("maxPhyOffset", end)
            .with("walkEnd", at).with("walkStop", stop).with("messages", messages)
            .with("dispatchBehindBytes", store.dispatchBehindBytes())
            .with("checkpoint", List.of(
                checkpoint.getPhysicMsgTimestamp(),
                checkpoint.getLogicsMsgTimestamp(),
                checkpoint.getIndexMsgTimestamp())));
    }

    private Json describe(long place, MessageExt message, ByteBuffer record) {
        Read read = reads.remove(place);
        if (read != null) {
            boolean fits = read.topic().equals(message.getTopic())
                && read.queueId() == message.getQueueId()
                && read.queueOffset() == message.getQueueOffset()
                && read.size() == record.limit()
                && read.crc() == Digests.crc(record);
            if (!fits) {
                wrong("the record at " + place + " is not what its queue gave: " + read);
            }
        }
        if (message.getCommitLogOffset() != place) {
            wrong("the record at " + place + " says " + message.getCommitLogOffset());
        }
        return Json.line("msg").with("commitLogOffset", place).with("topic", message.getTopic())
            .with("queueId", message.getQueueId()).with("queueOffset", message.getQueueOffset())
            .with("msgId", message.getMsgId()).with("storeSize", message.getStoreSize())
            .with("bodyCRC", message.getBodyCRC()).with("sysFlag", message.getSysFlag())
            .with("flag", message.getFlag()).with("bornTimestamp", message.getBornTimestamp())
            .with("storeTimestamp", message.getStoreTimestamp())
            .with("bornHost", Digests.host(message.getBornHost()))
            .with("storeHost", Digests.host(message.getStoreHost()))
            .with("reconsumeTimes", message.getReconsumeTimes())
            .with("preparedTransactionOffset", message.getPreparedTransactionOffset())
            .with("tags", message.getTags()).with("keys", message.getKeys())
            .with("properties", new TreeMap<>(message.getProperties()))
            .with("bodyLen", message.getBody() == null ? 0 : message.getBody().length)
            .with("bodySha256", Digests.sha256(message.getBody()))
            .with("recordSha256", Digests.sha256(record))
            .with("propertiesRawHex", Digests.rawProperties(record))
            .with("inCq", read != null)
            .with("cq", read == null ? null : Json.object()
                .with("offset", place).with("size", read.size()).with("tagsCode", read.tags()));
    }

    private Json byTime(String[] words) {
        int queueId = Integer.parseInt(words[2]);
        long time = Long.parseLong(words[3]);
        return Json.line("time").with("topic", words[1]).with("queueId", queueId).with("ts", time)
            .with("offset", store.getOffsetInQueueByTime(words[1], queueId, time));
    }

    /** `offsets` is what queryMessage gives, keys that collide included. */
    private Json byKey(String[] words) throws Exception {
        String topic = words[1];
        String key = words[2];
        int most = Integer.parseInt(words[3]);
        long begin = Long.parseLong(words[4]);
        long end = Long.parseLong(words[5]);
        List<Long> offsets = new ArrayList<>();
        QueryMessageResult result = store.queryMessage(topic, key, most, begin, end);
        for (ByteBuffer record : result.getMessageBufferList()) {
            offsets.add(MessageDecoder.decode(record, true, false).getCommitLogOffset());
        }
        List<Long> indexed = index().queryOffset(topic, key, most, begin, end).getPhyOffsets();
        Json line = Json.line("key").with("topic", topic).with("key", key).with("maxNum", most)
            .with("begin", begin).with("end", end).with("offsets", offsets)
            .with("indexPhyOffsets", indexed)
            .with("indexLastUpdateTimestamp", result.getIndexLastUpdateTimestamp())
            .with("indexLastUpdatePhyoffset", result.getIndexLastUpdatePhyoffset());
        result.release();
        return line;
    }

    private IndexService index() throws ReflectiveOperationException {
        var field = DefaultMessageStore.class.getDeclaredField("indexService");
        field.setAccessible(true);
        return (IndexService) field.get(store);
    }
}
