package silomq.peers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON into maps, lists, strings, doubles and booleans, and writes strings. */
final class Json {
    private final String text;
    private int at;

    private Json(final String text) {
        this.text = text;
    }

    static Map<String, Object> object(final String text) {
        final Json json = new Json(text);
        json.expect('{');
        return json.members();
    }

    static String quoted(final String text) {
        final StringBuilder found = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            final char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                found.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                found.append(String.format("\\u%04x", (int) c));
            } else {
                found.append(c);
            }
        }
        return found.append('"').toString();
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at character " + at + ": " + text);
    }

    private char next() {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
        if (at == text.length()) {
            throw wrong();
        }
        return text.charAt(at);
    }

    private boolean takes(final char wanted) {
        final boolean there = next() == wanted;
        at += there ? 1 : 0;
        return there;
    }

    private void expect(final char wanted) {
        if (!takes(wanted)) {
            throw wrong();
        }
    }

    private Object value() {
        if (takes('{')) {
            return members();
        }
        if (takes('[')) {
            return items();
        }
        if (takes('"')) {
            return string();
        }
        final int from = at;
        while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        final String word = text.substring(from, at);
        return switch (word) {
            case "true" -> Boolean.TRUE;
            case "false" -> Boolean.FALSE;
            case "null" -> "";
            default -> Double.valueOf(word);
        };
    }

    private Map<String, Object> members() {
        final Map<String, Object> found = new LinkedHashMap<>();
        if (takes('}')) {
            return found;
        }
        do {
            expect('"');
            final String name = string();
            expect(':');
            found.put(name, value());
        } while (takes(','));
        expect('}');
        return found;
    }

    private List<Object> items() {
        final List<Object> found = new ArrayList<>();
        if (takes(']')) {
            return found;
        }
        do {
            found.add(value());
        } while (takes(','));
        expect(']');
        return found;
    }

    private String string() {
        final StringBuilder found = new StringBuilder();
        while (at < text.length()) {
            final char c = text.charAt(at++);
            if (c == '"') {
                return found.toString();
            }
            if (c != '\\') {
                found.append(c);
                continue;
            }
            final char escaped = text.charAt(at++);
            switch (escaped) {
                case 'n' -> found.append('\n');
                case 't' -> found.append('\t');
                case 'r' -> found.append('\r');
                case 'b' -> found.append('\b');
                case 'f' -> found.append('\f');
                case 'u' -> {
                    found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                }
                default -> found.append(escaped);
            }
        }
        throw wrong();
    }
}
