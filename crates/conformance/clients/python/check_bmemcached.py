"""Drives python-binary-memcached (binary protocol) against one address.

check_bmemcached.py HOST PORT [--sasl USER PASSWORD] [--tls CA]

Prints a line for each check, and ends with a line `ok` and status 0, or with what failed.
"""

import argparse
import os
import ssl

import bmemcached
from bmemcached.exceptions import AuthenticationNotSupported, InvalidCredentials, MemcachedException


def same(name, got, expected) -> None:
    assert got == expected, f"{name}: {got!r} instead of {expected!r}"
    print(f"passed: {name}")


def failure(name, kinds, function, *arguments) -> None:
    try:
        value = function(*arguments)
    except kinds:
        print(f"passed: {name}")
        return
    raise AssertionError(f"{name}: no error, but {value!r}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port")
    parser.add_argument("--sasl", nargs=2, default=[None, None])
    parser.add_argument("--tls")
    options = parser.parse_args()
    username, password = options.sasl
    context = None
    if options.tls:
        context = ssl.create_default_context(cafile=options.tls)
        context.check_hostname = False  # The client gives no name.

    def connect(username=username, password=password):
        return bmemcached.Client(
            [f"{options.host}:{options.port}"], username, password, socket_timeout=60, tls_context=context
        )

    client = connect()
    same("a miss", client.get("bm:a"), None)
    for value in ["text", b"bytes", 17, 1 << 70, {"a": [1, None]}, "", "é" * 100, bytes(range(256)) * 2000]:
        same(f"set of {type(value).__name__}", client.set("bm:a", value, 100), True)
        same("it comes back as it was", client.get("bm:a"), value)
    client.set("bm:a", "one")
    same("add over a value", client.add("bm:a", "two"), False)
    same("add", client.add("bm:b", "2"), True)
    same("replace", client.replace("bm:b", "3"), True)
    same("replace of nothing", client.replace("bm:none", "x"), False)

    value, unique = client.gets("bm:a")
    same("gets", value, "one")
    same("cas", client.cas("bm:a", "first", unique), True)
    same("a late cas", client.cas("bm:a", "late", unique), False)
    same("only the first took effect", client.get("bm:a"), "first")
    done, unique = client.set("bm:a", "again", get_cas=True)
    same("set tells the unique", (done, client.gets("bm:a")[1]), (True, unique))
    same("a late delete", client.delete("bm:a", cas=unique - 1), False)
    same("delete with the unique", client.delete("bm:a", cas=unique), True)
    same("delete of nothing", client.delete("bm:a"), True)  # So the client has it.

    same("incr creates", client.incr("bm:n", 5, default=10, time=100), 10)
    same("incr", client.incr("bm:n", 5), 15)
    same("decr", client.decr("bm:n", 7), 8)
    same("decr stops at nought", client.decr("bm:n", 70), 0)
    client.set("bm:word", "word")
    failure("incr of a word", MemcachedException, client.incr, "bm:word", 1)

    many = {f"bm:many:{n}": "v" * n for n in range(400)}
    same("many quiet sets", client.set_multi(many, 100), [])
    same("many quiet gets", client.get_multi([*many, "bm:absent"]), many)
    same("many quiet deletes", client.delete_multi(list(many)), True)
    same("all are gone", client.get_multi(list(many)), {})

    failure("a value beyond the limit", MemcachedException, client.set, "bm:huge", os.urandom((1 << 20) + 1))
    same("the next command is answered", client.get("bm:b"), "3")
    # A pool with a directory takes shorter keys, and says so.
    key_max = int(os.environ.get("KEY_MAX", 250))
    longest = "k" * key_max
    same(f"a key of {key_max} bytes", client.set(longest, "x") and client.get(longest), "x")
    if key_max < 250:
        failure("a longer key", MemcachedException, client.set, longest + "k", "x")
    (stats,) = client.stats().values()
    same("stats", int(stats["pid"]) > 0 and int(stats["cmd_set"]) > 0, True)
    same("flush", client.flush_all(), True)
    same("all is gone", client.get("bm:b"), None)

    if username:
        wrong = (InvalidCredentials, AuthenticationNotSupported, MemcachedException)
        failure("a wrong password", wrong, connect(password="wrong").set, "bm:b", "x")
        stranger = connect(None, None)
        try:
            same("no password", stranger.set("bm:b", "x"), False)
        except MemcachedException:
            print("passed: no password")
        same("nothing was stored", client.get("bm:b"), None)
    client.disconnect_all()
    print("ok")


main()
