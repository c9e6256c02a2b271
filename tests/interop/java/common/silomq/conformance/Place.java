package silomq.conformance;

import java.util.List;
import java.util.Map;

/** The servers under test, and what the checks must know of them. */
final class Place {
    /** The client's release, as names of topics may have it. */
    final String release;
    /** The name server of the server that makes missing topics and groups. */
    final String names;
    /** The name server of the one that does not. */
    final String strict;
    /** The first one's broker, as clients must reach it. */
    final String broker;
    /** Milliseconds of each delay level, from level 1 on. */
    final List<Long> delays;
    final int maxMessageSize;
    /** How long a lock of a queue lives, milliseconds. */
    final long lockLife;

    Place(Map<String, String> words) {
        release = words.get("release").replace('.', '-');
        names = words.get("names");
        strict = words.get("strict");
        broker = words.get("broker");
        delays = List.of(words.get("delays").split(",")).stream().map(Long::valueOf).toList();
        maxMessageSize = Integer.parseInt(words.get("maxMessageSize"));
        lockLife = Long.parseLong(words.get("lockLife"));
    }
}
