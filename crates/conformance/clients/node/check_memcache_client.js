// Drives memcache-client (classic text protocol) against one address: check_memcache_client.js
// HOST:PORT [--tls CA], over TLS when the certificate of an authority is given.
"use strict";

const fs = require("node:fs");

const { MemcacheClient } = require("memcache-client");
const { bytes, failure, run, same } = require("./checks");

const [address, , authority] = process.argv.slice(2);

run(async () => {
  const tls = authority && { ca: fs.readFileSync(authority), servername: "localhost" };
  const client = new MemcacheClient({ server: { server: address, maxConnections: 3 }, cmdTimeout: 60_000, tls });
  const value = async (key) => (await client.get(key))?.value;

  same("a miss", await value("mc:a"), undefined);
  same("set", await client.set("mc:a", "one"), ["STORED"]);
  same("get", await value("mc:a"), "one");
  for (const data of [17, { a: [1, null] }, "", "é\r\nEND\r\n"]) {
    same(`set of ${JSON.stringify(data)}`, await client.set("mc:v", data), ["STORED"]);
    same("it comes back as it was", await value("mc:v"), data);
  }
  const large = bytes(500_000);
  same("set of many bytes", await client.set("mc:large", large), ["STORED"]);
  same("they come back whole", Buffer.compare(await value("mc:large"), large), 0);

  await failure("add over a value", client.add("mc:a", "two"));
  same("add", await client.add("mc:b", "2"), ["STORED"]);
  same("replace", await client.replace("mc:b", "3"), ["STORED"]);
  await failure("replace of nothing", client.replace("mc:none", "x"));
  same("append", await client.append("mc:b", "4"), ["STORED"]);
  same("prepend", await client.prepend("mc:b", "2"), ["STORED"]);
  same("both took effect", await value("mc:b"), "234");

  const { casUniq } = await client.gets("mc:b");
  same("cas", await client.cas("mc:b", "5", { casUniq }), ["STORED"]);
  await failure("a late cas", client.cas("mc:b", "6", { casUniq }));
  same("incr", await client.incr("mc:b", 10), "15");
  same("decr", await client.decr("mc:b", 20), "0");
  same("touch", await client.touch("mc:a", 100), ["TOUCHED"]);
  same("delete", await client.delete("mc:a"), ["DELETED"]);
  await failure("delete of nothing", client.delete("mc:a"));

  const keys = Array.from({ length: 200 }, (_, n) => `mc:many:${n}`);
  for (const key of keys) {
    client.set(key, key, { noreply: true });
  }
  await client.cmd("version");
  await Promise.all(keys.map((key) => client.set(key, `${key}!`)));
  const found = await client.get(keys);
  same("many keys", keys.every((key) => found[key].value === `${key}!`), true);

  await failure("a value beyond the limit", client.set("mc:huge", "x".repeat(1 << 20)));
  same("the next command is answered", await value("mc:b"), "0 ");
  same("version", (await client.version())[0], "VERSION");
  const stats = await client.cmd("stats");
  same("stats", stats.STAT.length > 40, true);
  same("flush_all", await client.cmd("flush_all"), ["OK"]);
  same("all is gone", await value("mc:b"), undefined);
  client.shutdown();
});
