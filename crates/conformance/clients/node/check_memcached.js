// Drives the npm package `memcached` (classic text protocol) against one address: check_memcached.js
// HOST:PORT.
"use strict";

const util = require("node:util");

const Memcached = require("memcached");
const { bytes, failure, run, same } = require("./checks");

run(async () => {
  const client = new Memcached(process.argv[2], { timeout: 60_000, retries: 0, poolSize: 4 });
  const call = (name, ...arguments_) => util.promisify(client[name].bind(client))(...arguments_);

  same("a miss", await call("get", "nm:a"), undefined);
  same("set", await call("set", "nm:a", "one", 100), true);
  same("get", await call("get", "nm:a"), "one");
  for (const value of [17, { a: [1, null] }, true, "", "é\r\nEND\r\n"]) {
    same(`set of ${JSON.stringify(value)}`, await call("set", "nm:v", value, 100), true);
    same("it comes back as it was", await call("get", "nm:v"), value);
  }
  same("set of bytes", await call("set", "nm:bytes", bytes(100_000), 100), true);
  same("they come back whole", Buffer.compare(await call("get", "nm:bytes"), bytes(100_000)), 0);
  await failure("add over a value", call("add", "nm:a", "two", 100));
  same("add", await call("add", "nm:b", "2", 100), true);
  same("replace", await call("replace", "nm:b", "3", 100), true);
  await failure("replace of nothing", call("replace", "nm:none", "x", 100));
  same("append", await call("append", "nm:b", "4"), true);
  same("prepend", await call("prepend", "nm:b", "2"), true);
  same("both took effect", await call("get", "nm:b"), "234");

  const { cas } = await call("gets", "nm:b");
  same("cas", await call("cas", "nm:b", "5", cas, 100), true);
  same("a late cas", await call("cas", "nm:b", "6", cas, 100), false);
  same("only the first took effect", await call("get", "nm:b"), "5");

  same("incr", await call("incr", "nm:b", 10), 15);
  same("decr", await call("decr", "nm:b", 20), 0);
  same("incr of nothing", await call("incr", "nm:none", 1), false);
  await failure("incr of a word", call("incr", "nm:a", 1));

  same("touch", await call("touch", "nm:a", 100), true);
  same("touch of nothing", await call("touch", "nm:none", 100), false);
  same("delete", await call("del", "nm:a"), true);
  same("delete of nothing", await call("del", "nm:a"), false);

  const keys = Array.from({ length: 200 }, (_, n) => `nm:many:${n}`);
  await Promise.all(keys.map((key, n) => call("set", key, `value ${n}`, 100)));
  const found = await call("getMulti", [...keys, "nm:absent"]);
  same("many keys", found, Object.fromEntries(keys.map((key, n) => [key, `value ${n}`])));

  await failure("a key with a space", call("set", "nm: a", "x", 100));
  const [version] = await call("version");
  same("version", /^\d+$/.test(version.major), true);
  const [stats] = await call("stats");
  same("stats", stats.pid > 0 && stats.cmd_set > 0, true);
  const [settings] = await call("settings");
  same("stats settings", settings.maxconns > 0, true);
  same("flush", await call("flush"), [true]);
  same("all is gone", await call("get", "nm:b"), undefined);
  // Last: the client takes a server that says so for dead.
  same("a value beyond the limit", await call("set", "nm:huge", "x".repeat((1 << 20) - 20), 100), false);
  client.end();
});
