package silomq.peers;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;

/** A worker that is a process: it keeps the workers' protocol on standard input and output. */
final class Alone {
    private Alone() {}

    static void work(final Client client) throws Exception {
        final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // a client may print there
        final OperatingSystemMXBean system =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        final BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int status = 0;
        try {
            new Session(in, out, () -> system.getProcessCpuTime() / 1e9).run(client);
        } catch (final Exception error) {
            error.printStackTrace();
            status = 1;
        }
        System.exit(status); // threads of a client may live on
    }
}
