"""Drives pymemcache (classic text protocol) against one address: check_pymemcache.py HOST PORT [--tls CA].

Ends with a line `ok` and status 0, or with the assertion that failed.
"""

import argparse
import ssl

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--tls")
    options = parser.parse_args()
    address = (options.host, options.port)
    context = ssl.create_default_context(cafile=options.tls) if options.tls else None
    # default_noreply is pymemcache's own default (True); both are driven.
    client = Client(address, default_noreply=False, connect_timeout=60, timeout=60, tls_context=context)
    quiet = Client(address, connect_timeout=60, timeout=60, tls_context=context)

    # Storing and reading.
    assert client.get("py:a") is None
    assert client.set("py:a", b"1", flags=7)
    assert client.get("py:a") == b"1"
    assert client.add("py:a", b"2") is False
    assert client.add("py:b", b"2") is True
    assert client.replace("py:c", b"3") is False
    assert client.replace("py:b", b"3") is True
    assert client.append("py:b", b"4") is True
    assert client.prepend("py:b", b"2") is True
    assert client.get("py:b") == b"234"
    assert client.append("py:none", b"x") is False
    assert client.set("py:empty", b"") and client.get("py:empty") == b""
    binary = bytes(range(256)) * 64 + b"\r\nEND\r\n"
    assert client.set("py:binary", binary) and client.get("py:binary") == binary

    # Many keys at once, over all servers behind a proxy.
    many = {f"py:many:{n}": str(n).encode() * (n % 50) for n in range(500)}
    assert client.set_many(many) == []
    assert client.get_many(list(many)) == many
    assert client.get_many([f"py:absent:{n}" for n in range(100)]) == {}
    some = client.gets_many(["py:many:1", "py:absent:1", "py:many:2"])
    assert {key: value for key, (value, _) in some.items()} == {"py:many:1": b"1", "py:many:2": b"22"}
    assert client.delete_many(list(many)) is True
    assert client.get_many(list(many)) == {}

    # Compare and swap.
    assert client.gets("py:cas") == (None, None)
    assert client.cas("py:cas", b"x", b"1") is None
    client.set("py:cas", b"x")
    value, unique = client.gets("py:cas")
    assert value == b"x"
    assert client.cas("py:cas", b"y", unique) is True
    assert client.cas("py:cas", b"z", unique) is False
    assert client.get("py:cas") == b"y"

    # Counting.
    assert client.incr("py:n", 1) is None
    client.set("py:n", b"10")
    assert client.incr("py:n", 5) == 15
    assert client.decr("py:n", 100) == 0
    client.set("py:n", b"word")
    try:
        client.incr("py:n", 1)
        raise AssertionError("incr of a word must be refused")
    except MemcacheClientError as error:
        assert b"non-numeric" in error.args[0], error

    # Times and deletion.
    assert client.touch("py:none", 10) is False
    assert client.touch("py:a", 100) is True
    assert client.touch("py:a", -1) is True
    assert client.get("py:a") is None
    assert client.set("py:gone", b"x", expire=-1) and client.get("py:gone") is None
    assert client.delete("py:b") is True
    assert client.delete("py:b") is False

    # Without replies: the connection stays in step, and the next reply belongs to the next question.
    for n in range(200):
        quiet.set(f"py:quiet:{n}", str(n))
        quiet.add(f"py:quiet:{n}", b"no")
        quiet.append(f"py:quiet:{n}", b"!")
        quiet.incr("py:quiet:none", 1, noreply=True)
        quiet.touch(f"py:quiet:{n}", 100)
    assert quiet.get("py:quiet:199") == b"199!"
    for n in range(200):
        quiet.delete(f"py:quiet:{n}")
    assert quiet.get("py:quiet:0") is None

    # Errors: too large, then the same connection goes on; and what the client refuses by itself.
    for _ in range(2):
        try:
            client.set("py:large", b"x" * (1024 * 1024 + 1))
            raise AssertionError("a value beyond the item limit must be refused")
        except MemcacheServerError as error:
            assert b"too large" in error.args[0], error
    assert client.get("py:large") is None
    try:
        client.set("py:bad key", b"x")
        raise AssertionError("pymemcache refuses a key with a space")
    except MemcacheIllegalInputError:
        pass

    # The rest.
    assert client.version()
    stats = client.stats()
    assert stats[b"cmd_get"] > 0 and stats[b"curr_connections"] > 0, stats
    pool = PooledClient(address, max_pool_size=4, default_noreply=False, timeout=60, tls_context=context)
    assert pool.set("py:pool", b"x") and pool.get("py:pool") == b"x" and pool.delete("py:pool")
    client.quit()
    print("ok")


main()
