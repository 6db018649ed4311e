import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

/** Drives spymemcached against one address: {@code HOST PORT text|binary [USER PASSWORD]}. */
public final class CheckSpymemcached {
    private CheckSpymemcached() {}

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
        boolean binary = arguments[2].equals("binary");
        ConnectionFactoryBuilder factory = new ConnectionFactoryBuilder()
            .setProtocol(binary ? ConnectionFactoryBuilder.Protocol.BINARY : ConnectionFactoryBuilder.Protocol.TEXT)
            .setOpTimeout(60_000);
        if (arguments.length > 3) {
            PlainCallbackHandler secret = new PlainCallbackHandler(arguments[3], arguments[4]);
            factory.setAuthDescriptor(new AuthDescriptor(new String[] {"PLAIN"}, secret));
        }
        InetSocketAddress address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        MemcachedClient client = new MemcachedClient(factory.build(), List.of(address));
        try {
            check(client, binary);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        client.shutdown(10, TimeUnit.SECONDS);
        Checks.done();
    }

    private static void check(MemcachedClient client, boolean binary) throws Exception {
        Checks.same("a miss", client.get("sp:a"), null);
        for (Object value : List.of("text", 17, 1L << 40, 2.5, true, Checks.bytes(500_000), new ArrayList<>(List.of("a", 1)))) {
            Checks.same("set of " + value.getClass().getSimpleName(), client.set("sp:v", 100, value).get(), true);
            Checks.same("it comes back as it was", client.get("sp:v"), value);
        }
        client.set("sp:a", 0, "one").get();
        Checks.same("add over a value", client.add("sp:a", 0, "two").get(), false);
        Checks.same("add", client.add("sp:b", 0, "2").get(), true);
        Checks.same("replace", client.replace("sp:b", 0, "3").get(), true);
        Checks.same("replace of nothing", client.replace("sp:none", 0, "x").get(), false);
        Checks.same("append", client.append("sp:b", "4").get(), true);
        Checks.same("prepend", client.prepend("sp:b", "2").get(), true);
        Checks.same("both took effect", client.get("sp:b"), "234");
        Checks.same("append to nothing", client.append("sp:none", "x").get(), false);

        CASValue<Object> found = client.gets("sp:a");
        Checks.same("gets", found.getValue(), "one");
        Checks.same("cas", client.cas("sp:a", found.getCas(), "first"), CASResponse.OK);
        Checks.same("a late cas", client.cas("sp:a", found.getCas(), "late"), CASResponse.EXISTS);
        Checks.same("cas of nothing", client.cas("sp:none", 1, "x"), CASResponse.NOT_FOUND);
        Checks.same("only the first took effect", client.get("sp:a"), "first");

        Checks.same("incr creates", client.incr("sp:n", 5, 10L, 100), 10L);
        Checks.same("incr", client.incr("sp:n", 5), 15L);
        Checks.same("decr", client.decr("sp:n", 7), 8L);
        Checks.same("decr stops at nought", client.decr("sp:n", 70), 0L);
        Checks.same("incr of nothing", client.incr("sp:none", 1), -1L);
        Checks.same("incr of a word", refused(() -> client.asyncIncr("sp:a", 1).get() == -1), true);

        Checks.same("touch", client.touch("sp:a", 100).get(), true);
        Checks.same("touch of nothing", client.touch("sp:none", 100).get(), false);
        if (binary) {
            Checks.same("get and touch", client.getAndTouch("sp:a", 100).getValue(), "first");
        }
        Checks.same("delete", client.delete("sp:a").get(), true);
        Checks.same("delete of nothing", client.delete("sp:a").get(), false);

        // The client joins what waits: many gets become one, in binary many quiet ones and a no-op.
        Map<String, Object> many = new HashMap<>();
        List<Future<Boolean>> stored = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            many.put("sp:many:" + n, "value " + n);
            stored.add(client.set("sp:many:" + n, 100, "value " + n));
        }
        for (Future<Boolean> one : stored) {
            if (!one.get()) {
                throw new AssertionError("one of many sets was refused");
            }
        }
        List<String> keys = new ArrayList<>(many.keySet());
        keys.add("sp:absent");
        Checks.same("many keys at once", client.getBulk(keys), many);
        List<Future<Object>> read = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            read.add(client.asyncGet("sp:many:" + n));
        }
        for (int n = 0; n < 500; n++) {
            if (!("value " + n).equals(read.get(n).get())) {
                throw new AssertionError("one of many gets got another's value");
            }
        }
        System.out.println("passed: many gets at once");

        Checks.failure("a key of 251 bytes", () -> client.get("k".repeat(251)));
        byte[] huge = new byte[1 << 20];
        new java.util.Random(1).nextBytes(huge);
        Checks.same("a value beyond the limit", refused(() -> !client.set("sp:huge", 0, huge).get()), true);
        Checks.same("the next command is answered", client.get("sp:b"), "234");
        Map<String, String> stats = client.getStats().values().iterator().next();
        Checks.same("stats", Long.parseLong(stats.get("pid")) > 0 && Long.parseLong(stats.get("cmd_set")) > 0, true);
        Checks.same("version", client.getVersions().size(), 1);
        Checks.same("flush", client.flush().get(), true);
        Checks.same("all is gone", client.get("sp:b"), null);
    }

    /** In text a refusal is an error, in binary an answer that says no. */
    private static boolean refused(Callable<Boolean> saysNo) {
        try {
            return saysNo.call();
        } catch (Exception error) {
            return true;
        }
    }
}
