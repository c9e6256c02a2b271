package silomq.peers;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The work of one worker: the fields of `Order` in load/protocol.py. */
final class Order {
    private static final long SECOND = 1_000_000_000L;

    private final Map<String, Object> fields;

    Order(final Map<String, Object> fields) {
        this.fields = fields;
    }

    private Object field(final String name) {
        final Object found = fields.get(name);
        if (found == null) {
            throw new IllegalArgumentException("the order has no " + name);
        }
        return found;
    }

    String text(final String name) {
        return (String) field(name);
    }

    double number(final String name) {
        return (Double) field(name);
    }

    int whole(final String name) {
        return (int) number(name);
    }

    List<String> texts(final String name) {
        final List<String> found = new ArrayList<>();
        for (final Object one : (List<?>) field(name)) {
            found.add((String) one);
        }
        return found;
    }

    boolean produces() {
        return text("role").equals("produce");
    }

    String endpoint(final String name) {
        return (String) ((Map<?, ?>) field("endpoint")).get(name);
    }

    /** A list of the member `sizes`. */
    double[] sizes(final String name) {
        final List<?> found = (List<?>) ((Map<?, ?>) field("sizes")).get(name);
        return found.stream().mapToDouble(one -> (Double) one).toArray();
    }

    /** From the start to the end of the work, ns. */
    long span() {
        return warmUp() + (long) (number("duration_s") * SECOND);
    }

    /** The first part of it, which is not measured, ns. */
    long warmUp() {
        return (long) (number("warm_up_s") * SECOND);
    }
}
