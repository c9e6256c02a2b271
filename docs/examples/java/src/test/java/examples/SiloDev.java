package examples;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** A broker for tests: `silo dev` on a free port. It ends when it is closed, or with the JVM. */
final class SiloDev implements AutoCloseable {
    private static final String READY = "NAMESRV_ADDR=";

    private final Process process;

    /** What a client takes as its name server. */
    final String address;

    SiloDev() throws IOException {
        process = new ProcessBuilder("silo", "dev", "--listen", "127.0.0.1:0", "--until-eof")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
        BufferedReader said = process.inputReader();
        String line = said.readLine();
        if (line == null || !line.startsWith(READY)) {
            throw new IOException("silo dev did not start: " + line);
        }
        address = line.substring(READY.length());
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.getOutputStream().close();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            process.destroyForcibly();
        }
    }
}
