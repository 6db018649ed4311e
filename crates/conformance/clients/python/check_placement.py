"""Shows that a proxy places keys where libmemcached does: check_placement.py PROXY BEHAVIORS SERVER...

Every address is HOST:PORT, and the behaviors are pylibmc's, in JSON. What pylibmc stores on the
servers is found through the proxy, and what is stored through the proxy is found by pylibmc. So an
application can change from one to the other with a warm cache. Ends with a line `ok` and status 0, or with the assertion that failed.
"""

import json
import sys

import pylibmc

KEYS = 500

# As long as a busy machine may take, in ms.
LONG_TIMEOUTS = {"connect_timeout": 60_000, "_poll_timeout": 60_000}


def main() -> None:
    proxy_address, behaviors, servers = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
    direct = pylibmc.Client(servers, binary=False, behaviors=behaviors | LONG_TIMEOUTS)
    prefix = "".join(f"{name}={setting}:" for name, setting in behaviors.items()).replace(" ", "_")
    proxy = pylibmc.Client([proxy_address], binary=False, behaviors=LONG_TIMEOUTS)

    stored = {f"{prefix}{n}:{'x' * (n % 40)}": str(n).encode() for n in range(KEYS)}
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
