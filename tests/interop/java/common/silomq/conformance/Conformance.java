package silomq.conformance;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs the checks of one release of the clients against servers that are up. The arguments are
 * NAME=VALUE, see Place. Prints a line for each check: its points, its name, and "ok" or "FAILED"
 * with the reason.
 *
 * <p>It does what the lines of its standard input say, side by side, and prints "done LINE" after
 * each:
 * <ul>
 * <li>checks: those that can run side by side
 * <li>only NAME: one of them
 * <li>cleaned: those on a topic "cleaned" whose first messages are gone
 * <li>restart: prints "restarting" when clients are at work
 * <li>restarted: the server was killed meanwhile, and is up again
 * </ul>
 */
public final class Conformance {
    private static final int AT_THE_SAME_TIME = 6;

    private final Place place;
    private final PrintStream out;
    private final CountDownLatch restarted = new CountDownLatch(1);

    private Conformance(Place place, PrintStream out) {
        this.place = place;
        this.out = out;
    }

    @FunctionalInterface
    private interface Body {
        void run(Scope scope) throws Exception;
    }

    private record Check(String points, String name, Body body) {
    }

    private static final List<Check> SIDE_BY_SIDE = List.of(
        new Check("40", "killed", Orderly::locksOfAKilledConsumerEnd),
        new Check("38+39", "fails", Retrying::aMessageThatFailsComesBackAndDies),
        new Check("24", "behind", Pulling::aConsumerBehindTheEndGoesOnThere),
        new Check("37", "flap", Filtering::differentSubscriptionsOfAGroupDisturbNobodyElse),
        new Check("46", "open", Transactions::whatNobodyDecidesIsGivenUp),
        new Check("44", "ended", Transactions::whatIsCommittedIsSeenOnce),
        new Check("45", "left", Transactions::anotherProducerOfTheGroupIsAsked),
        new Check("43", "timer", Retrying::aTimerDelays),
        new Check("43", "level", Retrying::aDelayLevelDelays),
        new Check("34", "share", Groups::consumersShareTheQueues),
        new Check("34", "leave", Groups::aConsumerTakesItsLeave),
        new Check("40", "order", Orderly::locksPassOnWithACleanEnd),
        new Check("41", "order-fails", Orderly::aMessageThatFailsIsADeadLetterAtOnce),
        new Check("42", "broadcast", Groups::everybodyHasABroadcast),
        new Check("32", "stops", Beginnings::aGroupGoesOnWhereItStopped),
        new Check("30+31", "few", Beginnings::aNewGroupBeginsAtTheFirstOfFewMessages),
        new Check("21", "wake", Pulling::aMessageWakesAHeldPull),
        new Check("10", "new", Sending::aMessageMakesItsTopic),
        new Check("11", "never", Sending::aStrictServerMakesNoTopic),
        new Check("13", "places", Sending::aResultSaysWhereTheMessageIs),
        new Check("16", "long", Sending::aLongBodyIsCompressed),
        new Check("17", "batch", Sending::aBatchTakesOffsetsThatFollowEachOther),
        new Check("19", "huge", Sending::aBodyThatIsTooLongIsRefused),
        new Check("26", "tags", Filtering::tagsFilter),
        new Check("27", "hash", Filtering::tagsOfTheSameHashAreDropped),
        new Check("28", "sql", Filtering::sqlFilters),
        new Check("28", "sql-refused", Filtering::sqlIsRefusedWhereItIsNotAllowed),
        new Check("48", "reply", Replying::aRequestIsReplied),
        new Check("48", "reply-nobody", Replying::aReplyToNobodyIsAnError),
        new Check("49", "subscribed", Pulling::aLitePullConsumerSubscribes),
        new Check("49", "assigned", Pulling::aLitePullConsumerSeeks),
        new Check("49+23", "pulled", Pulling::aPullConsumerPulls),
        new Check("50", "keys", LookUps::messagesAreFoundByKey),
        new Check("50", "ids", LookUps::aMessageIsFoundByItsIds));

    private static final List<Check> ON_A_CLEANED_TOPIC = List.of(
        new Check("24+31", "cleaned-first", Beginnings::firstIsTheFirstThatIsThere),
        new Check("31", "cleaned-time", Beginnings::aTimeIsTheFirstMessageFromThenOn),
        new Check("30", "cleaned-last", Beginnings::lastIsTheEnd),
        new Check("24", "cleaned-gone", Beginnings::whatIsGoneIsPassedOver));

    public static void main(String[] arguments) throws Exception {
        // The clients print warnings: standard output is for our lines alone.
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, String> words = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            words.put(pair[0], pair[1]);
        }
        Conformance run = new Conformance(new Place(words), out);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<Thread> all = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String told = line;
            Thread thread = new Thread(() -> run.obeyAndSay(told));
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
        Runtime.getRuntime().halt(0); // threads of the clients may live on
    }

    private void obeyAndSay(String line) {
        try {
            obey(line);
            say("done " + line);
        } catch (Exception | Error failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void obey(String line) throws Exception {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "checks":
                runAll(SIDE_BY_SIDE);
                break;
            case "only":
                runAll(SIDE_BY_SIDE.stream().filter(one -> one.name().equals(words[1])).toList());
                break;
            case "cleaned":
                runAll(ON_A_CLEANED_TOPIC);
                break;
            case "restart":
                run(new Check("62", "restart", scope -> Reconnecting.nothingIsLost(scope, () -> {
                    say("restarting");
                    restarted.await();
                })));
                break;
            case "restarted":
                restarted.countDown();
                break;
            default:
                throw new IllegalArgumentException("no such command: " + line);
        }
    }

    private void runAll(List<Check> checks) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(AT_THE_SAME_TIME);
        List<? extends Future<?>> all =
            checks.stream().map(check -> pool.submit(() -> run(check))).toList();
        for (Future<?> one : all) {
            one.get();
        }
        pool.shutdown();
    }

    private void run(Check check) {
        String what = check.points() + " " + check.name();
        long began = System.nanoTime();
        try (Scope scope = new Scope(place, check.name())) {
            check.body().run(scope);
            say(what + " ok " + (System.nanoTime() - began) / 1_000_000 + " ms");
        } catch (Exception | Error failure) {
            failure.printStackTrace();
            say(what + " FAILED " + failure.toString().replace('\n', ' '));
        }
    }

    private synchronized void say(String line) {
        out.println(line);
        out.flush();
    }
}
