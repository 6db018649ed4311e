import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.MemcachedClientBuilder;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** Drives xmemcached against one address: {@code HOST PORT text|binary}. */
public final class CheckXmemcached {
    private CheckXmemcached() {}

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0] + ":" + arguments[1];
        boolean binary = arguments[2].equals("binary");
        MemcachedClientBuilder builder = new XMemcachedClientBuilder(AddrUtil.getAddresses(address));
        if (binary) {
            builder.setCommandFactory(new BinaryCommandFactory());
        }
        builder.setOpTimeout(60_000);
        MemcachedClient client = builder.build();
        try {
            check(client);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        client.shutdown();
        Checks.done();
    }

    private static void check(MemcachedClient client) throws Exception {
        Checks.same("a miss", client.get("xm:a"), null);
        for (Object value : List.of("text", 17, 1L << 40, true, Checks.bytes(500_000), new ArrayList<>(List.of("a", 1)))) {
            Checks.same("set of " + value.getClass().getSimpleName(), client.set("xm:v", 100, value), true);
            Checks.same("it comes back as it was", client.get("xm:v"), value);
        }
        client.set("xm:a", 0, "one");
        Checks.same("add over a value", client.add("xm:a", 0, "two"), false);
        Checks.same("add", client.add("xm:b", 0, "2"), true);
        Checks.same("replace", client.replace("xm:b", 0, "3"), true);
        Checks.same("replace of nothing", client.replace("xm:none", 0, "x"), false);
        Checks.same("append", client.append("xm:b", "4"), true);
        Checks.same("prepend", client.prepend("xm:b", "2"), true);
        Checks.same("both took effect", client.get("xm:b"), "234");

        GetsResponse<Object> found = client.gets("xm:a");
        Checks.same("gets", found.getValue(), "one");
        Checks.same("cas", client.cas("xm:a", 0, "first", found.getCas()), true);
        Checks.same("a late cas", client.cas("xm:a", 0, "late", found.getCas()), false);
        Checks.same("only the first took effect", client.get("xm:a"), "first");

        Checks.same("incr creates", client.incr("xm:n", 5, 10), 10L);
        Checks.same("incr", client.incr("xm:n", 5, 10), 15L);
        Checks.same("decr", client.decr("xm:n", 7, 10), 8L);
        Checks.same("decr stops at nought", client.decr("xm:n", 70, 10), 0L);
        Checks.failure("incr of a word", () -> client.incr("xm:a", 1, 10));

        Checks.same("touch", client.touch("xm:a", 100), true);
        Checks.same("touch of nothing", client.touch("xm:none", 100), false);
        Checks.same("delete", client.delete("xm:a"), true);
        Checks.same("delete of nothing", client.delete("xm:a"), false);

        client.setWithNoReply("xm:quiet", 100, "quiet");
        client.addWithNoReply("xm:quiet", 100, "no");
        client.appendWithNoReply("xm:quiet", "er");
        Checks.same("stores without an answer", client.get("xm:quiet"), "quieter");
        client.deleteWithNoReply("xm:quiet");
        Checks.same("a delete without an answer", client.get("xm:quiet"), null);

        Map<String, Object> many = new HashMap<>();
        for (int n = 0; n < 500; n++) {
            many.put("xm:many:" + n, "value " + n);
            client.setWithNoReply("xm:many:" + n, 100, "value " + n);
        }
        List<String> keys = new ArrayList<>(many.keySet());
        keys.add("xm:absent");
        Checks.same("many keys at once", client.get(keys), many);
        Checks.same("many keys with their uniques", client.gets(keys).size(), 500);

        Checks.failure("a key of 251 bytes", () -> client.get("k".repeat(251)));
        Map<String, String> stats = client.getStats().values().iterator().next();
        Checks.same("stats", Long.parseLong(stats.get("pid")) > 0 && Long.parseLong(stats.get("cmd_set")) > 0, true);
        Checks.same("version", client.getVersions().size(), 1);
        client.flushAll();
        Checks.same("all is gone after a flush", client.get("xm:b"), null);
    }
}
