package silomq.bench;

import java.util.HashMap;
import java.util.Map;

/** One line of orders: a word, and NAME=VALUE words behind it. */
final class Order {
    private final String what;
    private final Map<String, String> values = new HashMap<>();

    Order(final String line) {
        final String[] words = line.trim().split(" ");
        what = words[0];
        for (int i = 1; i < words.length; i++) {
            final int equals = words[i].indexOf('=');
            values.put(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
    }

    String what() {
        return what;
    }

    String text(final String name) {
        final String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException(what + " needs " + name + "=");
        }
        return value;
    }

    int number(final String name) {
        return Integer.parseInt(text(name));
    }
}
