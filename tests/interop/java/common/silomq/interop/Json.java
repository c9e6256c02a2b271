package silomq.interop;

import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON objects of one line, as the manifests have them: no spaces, keys in the order given. */
final class Json {
    private final Map<String, Object> pairs = new LinkedHashMap<>();

    private Json() {
    }

    /** A line that says of itself what it is. */
    static Json line(String kind) {
        return new Json().with("kind", kind);
    }

    static Json object() {
        return new Json();
    }

    Json with(String name, Object value) {
        pairs.put(name, value);
        return this;
    }

    @Override
    public String toString() {
        StringBuilder out = new StringBuilder();
        write(out, pairs);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Json) {
            write(out, ((Json) value).pairs);
        } else if (value instanceof Map) {
            writeMap(out, (Map<?, ?>) value);
        } else if (value instanceof Collection) {
            writeList(out, (Collection<?>) value);
        } else {
            writeText(out, value.toString());
        }
    }

    private static void writeMap(StringBuilder out, Map<?, ?> map) {
        char before = '{';
        for (Map.Entry<?, ?> pair : map.entrySet()) {
            out.append(before);
            writeText(out, pair.getKey().toString());
            out.append(':');
            write(out, pair.getValue());
            before = ',';
        }
        out.append(before == '{' ? "{}" : "}");
    }

    private static void writeList(StringBuilder out, Collection<?> values) {
        out.append('[');
        Iterator<?> all = values.iterator();
        while (all.hasNext()) {
            write(out, all.next());
            if (all.hasNext()) {
                out.append(',');
            }
        }
        out.append(']');
    }

    private static void writeText(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
