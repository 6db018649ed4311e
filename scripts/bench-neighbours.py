#!/usr/bin/env python3
"""How long one small get takes while others behave badly: memcached, `evenkeel server` and `evenkeel proxy`, each on the first core.

Neighbours, from the second core, with less priority than the client that is measured:

  unread     each asks for fifty values of 1 MB and reads nothing
  slow       likewise, and reads 64 KiB ten times a second
  half       each sends half of a store of 1 MB
  reconnect  5,000 connect at once and get a key each, again and again

Prints the 99th percentile in microseconds, of one connection that asks again as soon as it is answered, alone and beside them.
Needs two cores, memcached, and `make dist`.

    scripts/bench-neighbours.py [NEIGHBOUR...]
"""
import json
import os
import socket
import subprocess
import sys
import time
from multiprocessing import Event, Process
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "target/dist/evenkeel"
SECONDS = 6
VALUE = b"x" * 1_000_000
COUNTS = {"unread": [60, 500], "slow": [60, 500], "half": [60, 500], "reconnect": [5000]}
LISTEN = ["-t", "1", "-l", "127.0.0.1", "-b", "8192", "-c", "12000"]


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start(core, command):
    """A program that listens, and its port."""
    port = free_port()
    as_root = ["-u", "root"] if os.geteuid() == 0 and "proxy" not in command else []
    command = ["taskset", "-c", str(core), *map(str, command), *LISTEN, "-p", str(port), *as_root]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{' '.join(command)} does not listen")


def bench(port, *flags):
    command = [PROGRAM, "bench", "run", "--target", f"127.0.0.1:{port}", "--threads", "1", "--keys", "100",
               "--get-share", "1", "--format", "json", *flags]
    ran = subprocess.run(["taskset", "-c", "1", *map(str, command)], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout)["targets"][0]["rounds"][0]


def p99(port, *flags):
    found = bench(port, "--connections", "1", "--warm-up", "2s", "--duration", f"{SECONDS}s", *flags)
    return round(found["latency_us_p99"])


class Neighbour:
    """A connection that behaves in one of the ways above."""

    def __init__(self, port, manner):
        self.socket = socket.socket()
        if manner != "half":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        asks = b"set half 0 0 1000000\r\n" + VALUE[:500_000] if manner == "half" else b"get big\r\n" * 50
        self.socket.send(asks)

    def is_closed(self, reads):
        try:
            return self.socket.recv(1 << 16 if reads else 1, 0 if reads else socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def behave(port, manner, count, begun, ended):
    os.nice(19)
    os.sched_setaffinity(0, {1})
    if manner == "reconnect":
        begun.set()
        while not ended.is_set():
            bench(port, "--connections", count, "--rate", count, "--no-preload", "--warm-up", "0s", "--duration", "300ms")
        return
    neighbours = [Neighbour(port, manner) for _ in range(count)]
    begun.set()
    while not ended.wait(0.1):
        for at, it in enumerate(neighbours):
            if it.is_closed(manner == "slow"):
                neighbours[at] = Neighbour(port, manner)


def beside(port, manner, count):
    begun, ended = Event(), Event()
    others = Process(target=behave, args=(port, manner, count, begun, ended), daemon=True)
    others.start()
    begun.wait(30)
    # The keys are there since it was measured alone.
    found = p99(port, "--no-preload")
    ended.set()
    others.join()
    return found


def main():
    wanted = sys.argv[1:] or list(COUNTS)
    if unknown := [it for it in wanted if it not in COUNTS]:
        sys.exit(f"there is no neighbour {unknown[0]!r}: one of {', '.join(COUNTS)}")
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not there: make dist")
    print(f"{'':<12}{'alone':>8}" + "".join(f"{f'{n} {it}':>16}" for it in wanted for n in COUNTS[it]))
    for name, command in [("memcached", ["memcached"]), ("server", [PROGRAM, "server"]), ("proxy", None)]:
        processes = []
        if command is None:
            behind, at = start(1, [PROGRAM, "server"])
            processes.append(behind)
            command = [PROGRAM, "proxy", "-s", f"127.0.0.1:{at}"]
        process, port = start(0, command)
        processes.append(process)
        with socket.create_connection(("127.0.0.1", port)) as it:
            it.sendall(b"set big 0 0 1000000\r\n" + VALUE + b"\r\n")
            assert it.recv(100) == b"STORED\r\n", "it stores a value of 1 MB"
        print(f"{name:<12}{p99(port):>8}", end="", flush=True)
        for manner in wanted:
            for count in COUNTS[manner]:
                print(f"{beside(port, manner, count):>16}", end="", flush=True)
        print()
        for it in processes:
            it.terminate()
            it.wait()


main()
