// Drives memjs (binary protocol) against one address: check_memjs.js HOST:PORT [USER PASSWORD].
"use strict";

const memjs = require("memjs");
const { bytes, failure, run, same } = require("./checks");

const [address, username, password] = process.argv.slice(2);
const OPTIONS = { timeout: 60, conntimeout: 60, retries: 0, username, password };

run(async () => {
  const client = memjs.Client.create(address, OPTIONS);
  const get = async (key) => (await client.get(key)).value;
  const text = async (key) => (await get(key))?.toString();

  same("a miss", await get("mj:a"), null);
  same("set", await client.set("mj:a", "one", { expires: 100 }), true);
  same("get", await text("mj:a"), "one");
  same("flags are kept", (await client.get("mj:a")).flags.readUInt32BE(0), 0);
  same("add over a value", await client.add("mj:a", "two", {}), false);
  same("add", await client.add("mj:b", "2", {}), true);
  same("replace", await client.replace("mj:b", "3", {}), true);
  same("replace of nothing", await client.replace("mj:none", "x", {}), false);
  same("append", await client.append("mj:b", "4"), true);
  // memjs 1.3.2 sends an append here too.
  same("prepend", await client.prepend("mj:b", "2"), true);
  same("both took effect", await text("mj:b"), "342");
  await failure("append to nothing", client.append("mj:none", "x"));
  same("an empty value", await client.set("mj:empty", "", {}), true);
  same("it comes back empty", await text("mj:empty"), "");

  const large = bytes(600_000);
  same("a large value", await client.set("mj:large", large, {}), true);
  same("it comes back whole", Buffer.compare(await get("mj:large"), large), 0);
  await failure("a value beyond the limit", client.set("mj:huge", Buffer.alloc((1 << 20) + 1), {}));
  same("the connection is in step afterwards", await text("mj:b"), "342");
  // A pool with a directory takes shorter keys.
  const keyMax = Number(process.env.KEY_MAX ?? 250);
  same(`a key of ${keyMax} bytes`, await client.set("k".repeat(keyMax), "x", {}), true);
  same("a key with spaces", await client.set("mj: with\r\nspaces", "x", {}), true);
  same("it is found", await text("mj: with\r\nspaces"), "x");

  same("increment creates", (await client.increment("mj:n", 5, { initial: 10, expires: 100 })).value, 10);
  same("increment", (await client.increment("mj:n", 5, { initial: 10 })).value, 15);
  same("decrement", (await client.decrement("mj:n", 7, {})).value, 8);
  same("decrement stops at nought", (await client.decrement("mj:n", 70, {})).value, 0);
  same("a count keeps its length", await text("mj:n"), "0 ");
  await failure("increment of a word", client.increment("mj:a", 1, {}));

  same("touch", await client.touch("mj:a", 500), true);
  same("touch of nothing", await client.touch("mj:none", 500), false);
  same("delete", await client.delete("mj:a"), true);
  same("delete of nothing", await client.delete("mj:a"), false);
  same("it is gone", await get("mj:a"), null);

  // Pipelined: answers are told apart by their opaques.
  const keys = Array.from({ length: 300 }, (_, n) => `mj:many:${n}`);
  const stored = await Promise.all(keys.map((key, n) => client.set(key, "v".repeat(n), {})));
  same("many sets at once", stored.every(Boolean), true);
  const values = await Promise.all(keys.map(text));
  same("many gets at once", values.map((value) => value.length), keys.map((_, n) => n));

  const stats = await new Promise((resolve, reject) =>
    client.stats((error, server, stats) => (error ? reject(error) : resolve(stats))),
  );
  same("stats", Number(stats.cmd_set) > 0 && "version" in stats && "pid" in stats, true);
  const flushed = await client.flush();
  same("flush", Object.values(flushed), [true]);
  same("all is gone", await get("mj:b"), null);

  if (username) {
    const intruder = memjs.Client.create(address, { ...OPTIONS, password: "wrong" });
    await failure("a wrong password", intruder.get("mj:a"));
    intruder.close();
    const stranger = memjs.Client.create(address, { ...OPTIONS, username: undefined, password: undefined });
    await failure("no password", stranger.get("mj:a"));
    stranger.close();
  }
  client.quit();
});
