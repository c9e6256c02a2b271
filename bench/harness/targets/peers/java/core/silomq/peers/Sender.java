package silomq.peers;

import java.util.List;

/** Sends for one worker: what `Sender` is in load/client.py. An error is thrown. */
interface Sender extends AutoCloseable {
    /** Called once for each `begin`, on any thread, with "" if the message was stored. */
    interface Acknowledged {
        void done(String error);
    }

    void oneway(String topic, byte[] body, String tag, String key) throws Exception;

    void send(String topic, byte[] body, String tag, String key) throws Exception;

    void begin(String topic, byte[] body, String tag, String key, Acknowledged acknowledged)
            throws Exception;

    void batch(String topic, List<byte[]> bodies, String tag, String key) throws Exception;

    @Override
    default void close() throws Exception {}
}
