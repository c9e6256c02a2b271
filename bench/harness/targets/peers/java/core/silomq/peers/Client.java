package silomq.peers;

/** What is measured. Its threads of work ask for a sender or a reader each. */
interface Client extends AutoCloseable {
    /** Of the client's library, as a member of a JSON object. */
    String version();

    Sender sender(Order order) throws Exception;

    Reader reader(Order order) throws Exception;

    @Override
    default void close() throws Exception {}
}
