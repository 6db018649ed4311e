"""Shows that a proxy places keys where libmemcached's ketama does: check_ketama.py PROXY SERVER...

Every address is HOST:PORT. What pylibmc stores on the servers is found through the proxy, and what
is stored through the proxy is found by pylibmc. So an application can change from one to the other
with a warm cache. Ends with a line `ok` and status 0, or with the assertion that failed.
"""

import sys

import pylibmc

KEYS = 2000


def main() -> None:
    proxy_address, servers = sys.argv[1], sys.argv[2:]
    # MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED: what PHP calls OPT_LIBKETAMA_COMPATIBLE.
    direct = pylibmc.Client(servers, binary=False, behaviors={"ketama_weighted": True})
    proxy = pylibmc.Client([proxy_address], binary=False)

    stored = {f"ketama:{n}:{'x' * (n % 40)}": str(n).encode() for n in range(KEYS)}
    for key, value in stored.items():
        assert direct.set(key, value), key
    missed = [key for key, value in stored.items() if proxy.get(key) != value]
    assert not missed, f"{len(missed)} of {KEYS} keys lie elsewhere, such as {missed[:3]}"
    assert proxy.get_multi(list(stored)) == stored

    changed = {key: value + b"!" for key, value in stored.items()}
    for key, value in changed.items():
        assert proxy.set(key, value), key
    missed = [key for key, value in changed.items() if direct.get(key) != value]
    assert not missed, f"{len(missed)} of {KEYS} keys were stored elsewhere, such as {missed[:3]}"

    used = [name for name, stats in direct.get_stats() if int(stats["curr_items"]) > 0]
    assert len(used) == len(servers), f"only {used} hold keys"
    print("ok")


main()
