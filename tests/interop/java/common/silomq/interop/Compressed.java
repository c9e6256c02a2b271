package silomq.interop;

import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * Puts messages whose bodies are compressed as RocketMQ's producer compresses them (with its
 * compressors and bits of sysFlag), and prints what RocketMQ's own decoder makes of each.
 */
final class Compressed {
    static final String TOPIC = "Compressed";
    private static final int[] SIZES = {1, 4_096, 70_000, 300_000};
    private static final int[] LEVELS = {1, 5, 9};

    private final DefaultMessageStore store;
    private final PrintStream out;
    private final InetSocketAddress host = new InetSocketAddress("10.20.30.40", 10911);

    Compressed(DefaultMessageStore store, PrintStream out) {
        this.store = store;
        this.out = out;
    }

    void run() throws Exception {
        for (int size : SIZES) {
            byte[] body = body(size);
            for (int level : LEVELS) {
                for (CompressionType type : CompressionType.values()) {
                    byte[] packed = CompressorFactory.getCompressor(type).compress(body, level);
                    put(body, packed, MessageSysFlag.COMPRESSED_FLAG | type.getCompressionFlag());
                }
                // A client before 4.9.4 sets no type: zlib.
                byte[] packed =
                    CompressorFactory.getCompressor(CompressionType.ZLIB).compress(body, level);
                put(body, packed, MessageSysFlag.COMPRESSED_FLAG);
            }
            put(body, body, 0);
        }
    }

    /** Half of it can be compressed. */
    private static byte[] body(int size) {
        Random chance = new Random(size);
        byte[] body = new byte[size];
        for (int i = 0; i < size; i++) {
            body[i] = i % 100 < 50 ? (byte) 'x' : (byte) chance.nextInt(256);
        }
        return body;
    }

    private void put(byte[] body, byte[] packed, int sysFlag) throws Exception {
        var message = Release.newMessage();
        message.setTopic(TOPIC);
        message.setQueueId(0);
        message.setBody(packed);
        message.setSysFlag(sysFlag);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(host);
        message.setStoreHost(host);
        MessageAccessor.setProperties(message, new TreeMap<>());
        message.setPropertiesString("");
        PutMessageResult result = store.putMessage(message);
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("refused: " + result);
        }
        long offset = result.getAppendMessageResult().getWroteOffset();
        MessageExt read = read(offset, result.getAppendMessageResult().getWroteBytes());
        out.println(Json.line("compressed").with("offset", offset).with("sysFlag", sysFlag)
            .with("bodyLen", body.length).with("bodySha256", Digests.sha256(body))
            .with("storedSha256", Digests.sha256(packed))
            .with("readSha256", Digests.sha256(read.getBody()))
            .with("readFlag", read.getSysFlag()));
    }

    /** The message as RocketMQ's client decodes it. */
    private MessageExt read(long offset, int size) {
        SelectMappedBufferResult found = store.getCommitLog().getMessage(offset, size);
        try {
            ByteBuffer bytes = ByteBuffer.allocate(size);
            bytes.put(found.getByteBuffer());
            bytes.flip();
            return MessageDecoder.decode(bytes, true, true);
        } finally {
            found.release();
        }
    }
}
