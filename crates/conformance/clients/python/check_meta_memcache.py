"""Drives meta-memcache (meta protocol) against one address: check_meta_memcache.py HOST PORT.

In the environment LEASES=refused says that leases on misses are to be refused, UNIQUES=wide that CAS uniques have more
than the 32 bits that this client reads, so that it shows none.

Ends with a line `ok` and status 0, or with the assertion that failed.
"""

import os
import sys

from meta_memcache import (
    CacheClient,
    Conflict,
    Key,
    LeasePolicy,
    MemcacheError,
    Miss,
    RecachePolicy,
    RequestFlags,
    ServerAddress,
    SetMode,
    StalePolicy,
    Success,
    Value,
    connection_pool_factory_builder,
)


def connect(host: str, port: int):
    return CacheClient.cache_client_from_servers(
        servers=[ServerAddress(host, port)],
        connection_pool_factory_fn=connection_pool_factory_builder(connection_timeout=60, recv_timeout=60),
    )


def check_cas(cache) -> None:
    """Compare and swap, of an item with the value 012."""
    value, unique = cache.get_cas("mm:mode")
    assert value == b"012" and unique
    assert cache.set("mm:mode", b"a", ttl=1000, cas_token=unique) is True
    assert cache.set("mm:mode", b"b", ttl=1000, cas_token=unique) is False
    newer = cache.set_cas("mm:mode", b"c", ttl=1000)
    assert cache.set("mm:mode", b"d", ttl=1000, cas_token=newer) is True
    assert cache.delete("mm:mode", cas_token=newer) is False
    assert isinstance(cache.meta_set(Key("mm:mode"), b"e", RequestFlags(cas_token=newer)), Conflict)


def check_leases(cache, other) -> None:
    """A lease on a miss: the first client wins and must fill, the others see that somebody does."""
    flags = RequestFlags(return_value=True, vivify_on_miss_ttl=30, return_cas_token=True)
    first = cache.meta_get(Key("mm:lease"), flags)
    second = other.meta_get(Key("mm:lease"), flags)
    assert isinstance(first, Value) and first.size == 0 and first.flags.win is True
    assert isinstance(second, Value) and second.size == 0 and second.flags.win is False
    waits = []

    def fill(seconds: float) -> None:
        """What the winner does while the loser waits."""
        waits.append(seconds)
        assert cache.set("mm:lease", "filled", ttl=1000, cas_token=first.flags.cas_token)

    policy = LeasePolicy(ttl=30, miss_retries=3, miss_retry_wait=0.0)
    assert other.get_or_lease("mm:lease", lease_policy=policy, lease_wait_fn=fill) == "filled"
    assert len(waits) == 1
    assert cache.get_or_lease("mm:lease2", lease_policy=policy) is None


def check_refused_leases(cache) -> None:
    """The flag is an error, and makes nothing."""
    try:
        cache.get_or_lease("mm:lease", lease_policy=LeasePolicy(ttl=30))
        raise AssertionError("a lease must be refused")
    except MemcacheError:
        pass  # The client keeps the server's words to itself and takes a new connection.
    assert cache.get("mm:lease") is None


def check_late_write(cache, other) -> None:
    """A write that lost the race leaves its value stale instead of being lost."""
    _, unique = cache.get_cas("mm:stale")
    assert other.set("mm:stale", "newer", ttl=1000)
    flags = RequestFlags(return_value=True)
    policy = StalePolicy(mark_stale_on_cas_mismatch=True)
    assert cache.set("mm:stale", "late", ttl=1000, cas_token=unique, stale_policy=policy) is True
    answer = cache.meta_get(Key("mm:stale"), flags)
    assert isinstance(answer, Value) and answer.flags.stale is True and answer.flags.win is True


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    cache, other = connect(host, port), connect(host, port)

    # Storing and reading, with the client's own serialisation in the flags.
    assert cache.get("mm:a") is None
    for value in ["text", b"bytes", 17, {"a": [1, None]}, "é" * 100, b"", bytes(range(256)) * 500]:
        assert cache.set("mm:a", value, ttl=1000)
        assert cache.get("mm:a") == value, value
    assert cache.get_typed("mm:a", bytes) is not None

    # Modes.
    assert cache.set("mm:mode", b"1", ttl=1000, set_mode=SetMode.REPLACE) is False
    assert cache.set("mm:mode", b"1", ttl=1000, set_mode=SetMode.ADD) is True
    assert cache.set("mm:mode", b"2", ttl=1000, set_mode=SetMode.ADD) is False
    assert cache.set("mm:mode", b"2", ttl=1000, set_mode=SetMode.APPEND) is True
    assert cache.set("mm:mode", b"0", ttl=1000, set_mode=SetMode.PREPEND) is True
    assert cache.get("mm:mode") == b"012"
    assert cache.refill("mm:mode", b"x", ttl=1000) is False

    # Many keys in one pipeline, over all servers behind a proxy.
    for n in range(300):
        cache.set(f"mm:many:{n}", n, ttl=1000, no_reply=True)
    found = cache.multi_get([f"mm:many:{n}" for n in range(0, 400)])
    assert {key.key: value for key, value in found.items() if value is not None} == {
        f"mm:many:{n}": n for n in range(300)
    }

    wide = os.environ.get("UNIQUES") == "wide"
    if wide:
        assert cache.get_cas("mm:mode") == (b"012", None)
    else:
        check_cas(cache)
    assert cache.delete("mm:mode") is True
    assert cache.delete("mm:mode") is False
    assert cache.invalidate("mm:mode") is True

    # Binary keys travel in base64.
    domain = Key("mm:\N{SNOWMAN} key with spaces")
    assert cache.set(domain, "snow", ttl=1000) and cache.get(domain) == "snow"
    assert cache.delete(domain) and cache.get(domain) is None

    # Counting.
    assert cache.delta_and_get("mm:n", delta=1) is None
    assert cache.delta_initialize_and_get("mm:n", delta=5, initial_value=10, initial_ttl=1000) == 10
    assert cache.delta_initialize_and_get("mm:n", delta=5, initial_value=10, initial_ttl=1000) == 15
    assert cache.delta_and_get("mm:n", delta=-100) == 0
    assert cache.delta("mm:n", delta=3) is True
    assert cache.delta_and_get("mm:n", delta=0) == 3

    # Times.
    assert cache.touch("mm:none", ttl=10) is False
    assert cache.touch("mm:n", ttl=500) is True
    answer = cache.meta_get(Key("mm:n"), RequestFlags(return_ttl=True, return_size=True, return_fetched=True))
    assert isinstance(answer, Success) and 490 <= answer.flags.ttl <= 500, answer.flags
    # Two digits were stored first; a counter keeps its length.
    assert answer.flags.size == 2 and answer.flags.fetched is True
    assert cache.delete("mm:n") is True and cache.get("mm:n") is None

    if os.environ.get("LEASES") == "refused":
        check_refused_leases(cache)
    else:
        check_leases(cache, other)

    # Stale while one client recaches.
    assert cache.set("mm:stale", "old", ttl=1000)
    assert cache.delete("mm:stale", stale_policy=StalePolicy(mark_stale_on_deletion_ttl=300)) is True
    flags = RequestFlags(return_value=True, return_cas_token=True, return_client_flag=True)
    first = cache.meta_get(Key("mm:stale"), flags)
    second = other.meta_get(Key("mm:stale"), flags)
    assert isinstance(first, Value) and first.flags.win is True and first.flags.stale is True
    assert isinstance(second, Value) and second.flags.win is False and second.flags.stale is True
    assert cache.set("mm:stale", "new", ttl=1000, cas_token=first.flags.cas_token) is True
    assert other.get("mm:stale") == "new"

    if not wide:
        check_late_write(cache, other)

    # Early recache: one client is told to refresh while there is time left.
    assert cache.set("mm:early", "x", ttl=20)
    recache = RecachePolicy(ttl=30)
    assert cache.get("mm:early", recache_policy=recache) is None
    assert other.get("mm:early", recache_policy=recache) == "x"

    # Too large: refused. Random bytes, or the client would compress them.
    try:
        cache.set("mm:large", os.urandom(1024 * 1024 + 1), ttl=10)
        raise AssertionError("a value beyond the item limit must be refused")
    except MemcacheError:
        pass  # The client keeps the server's words to itself and takes a new connection.
    assert isinstance(cache.meta_get(Key("mm:large"), RequestFlags(return_value=True)), Miss)
    print("ok")


main()
