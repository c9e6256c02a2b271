package silomq.interop;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Opens a store folder with RocketMQ's own DefaultMessageStore and does with it, in order, what the
 * arguments say. What is found out goes to standard output, one JSON object a line.
 *
 * <pre>
 * Main STORE [NAME=VALUE ...] COMMAND ...
 *   start           start the store's services, as a broker does
 *   dump QUERIES    everything in the store, and the look-ups named in the file QUERIES (or -)
 *   append N SEED   put N messages
 *   append6 N SEED  the same, from and to IPv6 hosts
 *   feature         put messages into the topic "featured", as the settings allow: inner batches
 *                   for a batch queue, messages for light queues, plain ones otherwise
 *   timers N MS     deliver timers (RocketMQ 5) until N are delivered, and for MS milliseconds more
 *   compressed      put messages with compressed bodies
 *   stop            stop cleanly; the last command
 *   --halt          end at once, as if killed; the last command
 * </pre>
 *
 * The setting topicAttribute=NAME:VALUE gives the topic "featured" an attribute (RocketMQ 5).
 * The store is loaded first. Exit status 1: it did not load; the line `load` says so.
 */
public final class Main {
    private final PrintStream out;
    private final DefaultMessageStore store;
    private boolean running;

    private Main(PrintStream out, DefaultMessageStore store) {
        this.out = out;
        this.store = store;
    }

    public static void main(String[] args) throws Exception {
        // RocketMQ's logging may print: standard output is for our lines alone.
        PrintStream out = new PrintStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16),
            false,
            StandardCharsets.UTF_8);
        System.setOut(System.err);
        Deque<String> words = new ArrayDeque<>(List.of(args));
        MessageStoreConfig config = settings(words);
        boolean aborted = new File(config.getStorePathRootDir(), "abort").exists();
        DefaultMessageStore store = Release.open(config);
        long began = System.nanoTime();
        boolean loaded = store.load();
        out.println(Json.line("load")
            .with("ok", loaded)
            .with("abortFilePresent", aborted)
            .with("loadMillis", (System.nanoTime() - began) / 100_000 / 10.0));
        out.flush();
        if (!loaded) {
            Runtime.getRuntime().halt(1);
        }
        Main main = new Main(out, store);
        while (!words.isEmpty()) {
            main.run(words.pop(), words);
            out.flush();
        }
        System.err.println("the last command must be stop or --halt");
        Runtime.getRuntime().halt(2);
    }

    private static MessageStoreConfig settings(Deque<String> words) {
        String root = words.pop();
        Properties values = new Properties();
        values.setProperty("storePathRootDir", root);
        values.setProperty("storePathCommitLog", root + "/commitlog");
        values.setProperty("haListenPort", "0");
        while (!words.isEmpty() && words.peek().contains("=")) {
            String[] pair = words.pop().split("=", 2);
            values.setProperty(pair[0], pair[1]);
        }
        System.setProperty("silomq.attribute", values.getProperty("topicAttribute", ""));
        MessageStoreConfig config = new MessageStoreConfig();
        MixAll.properties2Object(values, config);
        return config;
    }

    private void run(String command, Deque<String> words) throws Exception {
        switch (command) {
            case "start":
                store.start();
                running = true;
                break;
            case "dump":
                new Dump(store, out).run(queries(words.pop()));
                break;
            case "append":
            case "append6":
                int count = Integer.parseInt(words.pop());
                long seed = Long.parseLong(words.pop());
                new Append(store, out, command.equals("append6")).run(count, seed);
                break;
            case "timers":
                int timers = Integer.parseInt(words.pop());
                Release.timers(store, timers, Long.parseLong(words.pop()), out);
                break;
            case "feature":
                new Feature(store).run();
                break;
            case "compressed":
                new Compressed(store, out).run();
                break;
            case "stop":
                stop();
                break;
            case "--halt":
                Runtime.getRuntime().halt(0);
                break;
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private static List<String> queries(String file) throws Exception {
        return file.equals("-") ? List.of() : Files.readAllLines(Path.of(file));
    }

    /** A clean stop; that the abort file is gone is what RocketMQ itself takes for one. */
    private void stop() {
        if (!running) {
            throw new IllegalStateException("stop needs start");
        }
        store.shutdown();
        String root = store.getMessageStoreConfig().getStorePathRootDir();
        boolean abort = new File(root, "abort").exists();
        out.println(Json.line("stop").with("abortFilePresent", abort));
        out.flush();
        // Left-over threads of RocketMQ would keep the machine alive.
        Runtime.getRuntime().halt(0);
    }
}
