package silomq.bench;

import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;

/**
 * What a run prints: a line when its measured part begins, and a line with its figures when that is
 * over. Who reads them looks at the CPU time of the servers at both.
 */
final class Report {
    private static final PrintStream OUT = System.out;

    private final Map<String, Object> figures = new LinkedHashMap<>();

    /** Keeps standard output for reports: RocketMQ's client logs there too. */
    static void keepOutput() {
        System.setOut(System.err);
    }

    static void begin() {
        OUT.println("{\"kind\":\"begin\"}");
    }

    Report with(final String name, final Number value) {
        figures.put(name, value);
        return this;
    }

    /** The median and the 99th percentile. */
    Report with(final String name, final Latencies latencies) {
        with(name + "_p50_us", latencies.microseconds(0.5));
        return with(name + "_p99_us", latencies.microseconds(0.99));
    }

    void print() {
        final StringJoiner line = new StringJoiner(",", "{\"kind\":\"end\",", "}");
        figures.forEach((name, value) -> {
            final boolean whole = value instanceof Long || value instanceof Integer;
            final String text = String.format(Locale.ROOT, whole ? "%d" : "%.6f", value);
            line.add("\"" + name + "\":" + text);
        });
        OUT.println(line);
    }
}
