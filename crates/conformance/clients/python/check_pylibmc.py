"""Drives pylibmc (libmemcached, classic text or binary protocol) against one address.

check_pylibmc.py HOST PORT [--binary [--sasl USER PASSWORD]]

Ends with a line `ok` and status 0, or with the assertion that failed.
"""

import argparse

import pylibmc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port")
    parser.add_argument("--binary", action="store_true")
    parser.add_argument("--sasl", nargs=2, default=[None, None])
    options = parser.parse_args()
    username, password = options.sasl

    def connect(password):
        return pylibmc.Client(
            [f"{options.host}:{options.port}"],
            binary=options.binary,
            username=username,
            password=password,
            # libmemcached checks keys of text alone.
            behaviors={"cas": True, "tcp_nodelay": True} | ({} if options.binary else {"verify_keys": True}),
        )

    def refused(operation, *arguments) -> bool:
        """In binary, what is not there is an error."""
        try:
            return operation(*arguments) is False
        except pylibmc.NotFound:
            return options.binary

    client = connect(password)

    assert client.get("lm:a") is None
    assert client.set("lm:a", "text") and client.get("lm:a") == "text"
    assert client.set("lm:n", 5) and client.get("lm:n") == 5
    assert client.add("lm:a", b"no") is False
    assert refused(client.replace, "lm:none", b"no")
    assert client.set("lm:b", b"2") and client.append("lm:b", b"3") and client.prepend("lm:b", b"1")
    assert client.get("lm:b") == b"123"

    # Buffered and many at a time: libmemcached sends all, then reads all.
    many = {f"lm:many:{n}": bytes([n % 256]) * n for n in range(400)}
    assert client.set_multi(many) == []
    assert client.get_multi(list(many) + ["lm:absent"]) == many
    assert client.delete_multi(list(many)) is True
    assert client.get_multi(list(many)) == {}

    assert client.incr("lm:n", 10) == 15 and client.decr("lm:n", 20) == 0
    try:
        client.incr("lm:none", 1)
        raise AssertionError("incr of nothing must fail")
    except pylibmc.NotFound:
        pass

    value, unique = client.gets("lm:a")
    assert value == "text"
    assert client.cas("lm:a", "newer", unique) is True
    assert client.cas("lm:a", "late", unique) is False

    assert client.touch("lm:a", 100) is True and client.touch("lm:none", 100) is False
    assert client.delete("lm:a") is True and client.delete("lm:a") is False
    large = bytes(range(256)) * 3900
    assert client.set("lm:large", large) and client.get("lm:large") == large
    try:
        client.set("lm:huge", b"x" * (1024 * 1024 + 1))
        raise AssertionError("a value beyond the item limit must be refused")
    except pylibmc.Error:
        pass
    assert client.get("lm:b") == b"123"
    if username:
        stranger = connect("wrong")
        try:
            assert not stranger.set("lm:b", b"stolen"), "a wrong password"
        except pylibmc.Error:
            pass
        assert client.get("lm:b") == b"123"
    client.disconnect_all()
    print("ok")


main()
