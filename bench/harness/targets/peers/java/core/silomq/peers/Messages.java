package silomq.peers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.DoubleStream;

/** The messages of a producer, made ready before the start and sent in turn. */
final class Messages {
    private static final int MOST = 4096;
    private static final int LEAST = 8;
    private static final long MOST_BYTES = 32L << 20;
    private static final int STAMP = 8;
    private static final int SEED_STEP = 1009;

    private final Message[] ready;
    private int at;

    /** A message whose body has no stamp yet. */
    record Message(String topic, byte[] body, String tag, String key) {
        byte[] stamped(final long due, final Numbers numbers) {
            final byte[] stamped = body.clone();
            ByteBuffer.wrap(stamped).putLong(due);
            if (numbers != null) {
                numbers.number(stamped);
            }
            return stamped;
        }
    }

    Messages(final Order order) throws IOException {
        final double[] sizes = order.sizes("values");
        final double[] weights = order.sizes("weights");
        final List<String> topics = order.texts("topics");
        final List<String> tags = order.texts("tags");
        final int index = order.whole("index");
        final int keys = order.whole("keys");
        final Random chance = new Random((long) order.number("seed") * SEED_STEP + index);
        final byte[] data = order.text("payload").isEmpty()
                ? new byte[(int) DoubleStream.of(sizes).max().orElse(0)]
                : Files.readAllBytes(Path.of(order.text("payload")));
        final double mean = DoubleStream.of(sizes).average().orElseThrow();
        int count = (int) Math.max(LEAST, Math.min(MOST, MOST_BYTES / mean));
        count = Math.max(count, topics.size());
        if (!tags.isEmpty()) {
            count += (tags.size() - count % tags.size()) % tags.size();
        }
        final int first = index * topics.size() / Math.max(1, order.whole("workers"));
        ready = new Message[count];
        for (int n = 0; n < count; n++) {
            final int size = (int) sizes[drawn(weights, sizes.length, chance)];
            final byte[] body = new byte[size];
            final int length = Math.min(size - STAMP, data.length);
            final int from = chance.nextInt(Math.max(1, data.length - length));
            System.arraycopy(data, from, body, STAMP, length);
            ready[n] = new Message(
                    topics.get((first + n) % topics.size()), body,
                    tags.isEmpty() ? "" : tags.get(n % tags.size()),
                    keys == 0 ? "" : "key" + chance.nextInt(keys));
        }
    }

    private static int drawn(final double[] weights, final int count, final Random chance) {
        if (weights.length == 0) {
            return chance.nextInt(count);
        }
        double left = chance.nextDouble() * Arrays.stream(weights).sum();
        for (int i = 0; i < count - 1; i++) {
            left -= weights[i];
            if (left < 0) {
                return i;
            }
        }
        return count - 1;
    }

    Message next() {
        final Message found = ready[at];
        at = at + 1 == ready.length ? 0 : at + 1;
        return found;
    }
}
