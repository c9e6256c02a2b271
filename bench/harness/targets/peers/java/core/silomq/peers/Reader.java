package silomq.peers;

import java.util.List;
import java.util.function.Consumer;

/** Reads for one worker: what `Reader` is in load/client.py. */
interface Reader extends AutoCloseable {
    /** The bodies of the next messages; none after a time. */
    List<byte[]> read(long timeoutNs) throws Exception;

    /** Calls `take` with each body on threads of the client. */
    default void listen(final Consumer<byte[]> take) throws Exception {
        throw new UnsupportedOperationException("this target has no listeners");
    }

    @Override
    default void close() throws Exception {}
}
