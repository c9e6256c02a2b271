package silomq.peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/**
 * Hosts a store in this process. Each connection to its port is a worker: a thread of this process
 * that keeps the workers' protocol. Ends when standard input is closed.
 */
final class Host {
    private static final PrintStream OUT = System.out;

    private Host() {}

    /** Keeps standard output for the port: a store may print there. To be called first. */
    static void keepOutput() {
        System.setOut(System.err);
    }

    static void serve(final Client client) throws Exception {
        final ServerSocket server = new ServerSocket(0, 256, InetAddress.getLoopbackAddress());
        OUT.println(server.getLocalPort());
        OUT.flush();
        final Thread accept = new Thread(() -> accept(server, client), "accept");
        accept.setDaemon(true);
        accept.start();
        while (System.in.read() >= 0) {
            Thread.onSpinWait();
        }
        client.close();
        System.exit(0);
    }

    private static void accept(final ServerSocket server, final Client client) {
        while (true) {
            try {
                final Socket socket = server.accept();
                final Thread worker = new Thread(() -> work(socket, client), "worker");
                worker.setDaemon(true);
                worker.start();
            } catch (final IOException error) {
                error.printStackTrace();
                System.exit(1);
            }
        }
    }

    private static void work(final Socket socket, final Client client) {
        try (socket;
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                PrintStream out = new PrintStream(
                        socket.getOutputStream(), true, StandardCharsets.UTF_8)) {
            try {
                // The CPU time is the store's: it is the same process.
                new Session(in, out, () -> 0).run(client);
            } catch (final Exception error) {
                error.printStackTrace();
                out.println("error: " + error.toString().replace('\n', ' '));
            }
        } catch (final IOException error) {
            error.printStackTrace();
        }
    }
}
