package silomq.peers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** The numbers in bodies by which lost and doubled messages are found: see load/numbers.py. */
final class Numbers {
    private static final int AT = 8;
    private static final int INDEX_SHIFT = 48;

    private final Path path;
    private long next;
    private long[] found = new long[1 << 12];
    private int count;

    Numbers(final Order order) {
        final String name = String.join(
                "-", order.text("role"), order.text("group"), "" + order.whole("index"));
        path = Path.of(order.text("check"), name);
        next = (long) order.whole("index") << INDEX_SHIFT;
    }

    /** Puts the next number into a body. */
    void number(final byte[] body) {
        ByteBuffer.wrap(body).putLong(AT, next++);
    }

    /** This message was acknowledged, or read. */
    synchronized void note(final byte[] body) {
        if (count == found.length) {
            found = Arrays.copyOf(found, 2 * count);
        }
        found[count++] = ByteBuffer.wrap(body).getLong(AT);
    }

    synchronized void write() throws IOException {
        final ByteBuffer bytes =
                ByteBuffer.allocate(count * Long.BYTES).order(ByteOrder.nativeOrder());
        bytes.asLongBuffer().put(found, 0, count);
        Files.write(path, bytes.array());
    }
}
