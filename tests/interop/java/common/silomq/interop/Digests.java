package silomq.interop;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.zip.CRC32C;

/** Bytes and addresses as the lines have them. */
final class Digests {
    private static final int MAGIC_V2 = 0xDAA320AB;
    private static final int BORN_V6 = 0x10;
    private static final int STORE_V6 = 0x20;

    private Digests() {
    }

    static String sha256(byte[] bytes) {
        return sha256(ByteBuffer.wrap(bytes == null ? new byte[0] : bytes));
    }

    static String sha256(ByteBuffer bytes) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(bytes.duplicate());
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    static long crc(ByteBuffer bytes) {
        CRC32C sum = new CRC32C();
        sum.update(bytes.duplicate());
        return sum.getValue();
    }

    static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String text = host.getAddress().getHostAddress();
        return (text.contains(":") ? "[" + text + "]" : text) + ":" + host.getPort();
    }

    /** The property string of a whole record, in hex. */
    static String rawProperties(ByteBuffer record) {
        int flags = record.getInt(36);
        int hosts = ((flags & BORN_V6) != 0 ? 20 : 8) + ((flags & STORE_V6) != 0 ? 20 : 8);
        int body = 68 + hosts;
        int topic = body + 4 + record.getInt(body);
        boolean wide = record.getInt(4) == MAGIC_V2;
        int at = topic + (wide ? 2 + record.getShort(topic) : 1 + record.get(topic));
        byte[] raw = new byte[record.getShort(at)];
        record.get(at + 2, raw);
        return HexFormat.of().formatHex(raw);
    }
}
