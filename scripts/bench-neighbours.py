#!/usr/bin/env python3
"""How long one small get takes while others behave badly: memcached, `evenkeel server` and `evenkeel proxy`, each on the first core.

Neighbours, from the second core, with less priority than the client that is measured:

  unread     each asks for fifty values of 1 MB and reads nothing
  slow       likewise, and reads 64 KiB ten times a second
  half       each sends half of a store of 1 MB
  reconnect  5,000 connect at once and get a key each, again and again
  tls        each begins a TLS handshake, and goes when it is answered, again and again

Prints the 99th percentile in microseconds, of one connection that asks again as soon as it is answered, alone and beside them.
Needs two cores, memcached, and `make dist`.

    scripts/bench-neighbours.py [NEIGHBOUR...]
"""
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from multiprocessing import Event, Process
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "target/dist/evenkeel"
SECONDS = 6
VALUE = b"x" * 1_000_000
COUNTS = {"unread": [60, 500], "slow": [60, 500], "half": [60, 500], "reconnect": [5000], "tls": [500]}
LISTEN = ["-t", "1", "-b", "8192", "-c", "12000", "-Z"]
FOLDER = tempfile.TemporaryDirectory()


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def certificate():
    """Options of a program that speaks TLS, by a certificate that lasts a day."""
    key, chain = (f"{FOLDER.name}/{name}.pem" for name in ("key", "chain"))
    if not os.path.exists(chain):
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                "-subj", "/CN=localhost", "-keyout", key, "-out", chain]
        subprocess.run(made, check=True, capture_output=True)
    return ["-o", f"ssl_chain_cert={chain},ssl_key={key}"]


def client_hello():
    """What a TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    said = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return said.read()


def start(core, command):
    """A program that listens, its port, and its port for TLS."""
    port, tls = free_port(), free_port()
    as_root = ["-u", "root"] if os.geteuid() == 0 and "proxy" not in command else []
    listen = ["-l", f"notls:127.0.0.1:{port},127.0.0.1:{tls}", *certificate()]
    command = ["taskset", "-c", str(core), *map(str, command), *LISTEN, *listen, *as_root]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port, tls
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


HELLO = client_hello()


class Neighbour:
    """A connection that behaves in one of the ways above."""

    def __init__(self, port, manner):
        self.socket = socket.socket()
        if manner not in ("half", "tls"):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        asks = {"half": b"set half 0 0 1000000\r\n" + VALUE[:500_000], "tls": HELLO}
        self.socket.send(asks.get(manner, b"get big\r\n" * 50))

    def is_closed(self, reads):
        try:
            return self.socket.recv(1 << 16 if reads else 1, 0 if reads else socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def is_answered(self):
        try:
            self.socket.recv(1 << 14)
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.socket.close()
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
    while not ended.wait(0 if manner == "tls" else 0.1):
        for at, it in enumerate(neighbours):
            if it.is_answered() if manner == "tls" else it.is_closed(manner == "slow"):
                neighbours[at] = Neighbour(port, manner)


def beside(port, tls, manner, count):
    begun, ended = Event(), Event()
    at = tls if manner == "tls" else port
    others = Process(target=behave, args=(at, manner, count, begun, ended), daemon=True)
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
            behind, at, _ = start(1, [PROGRAM, "server"])
            processes.append(behind)
            command = [PROGRAM, "proxy", "-s", f"127.0.0.1:{at}"]
        process, port, tls = start(0, command)
        processes.append(process)
        with socket.create_connection(("127.0.0.1", port)) as it:
            it.sendall(b"set big 0 0 1000000\r\n" + VALUE + b"\r\n")
            assert it.recv(100) == b"STORED\r\n", "it stores a value of 1 MB"
        print(f"{name:<12}{p99(port):>8}", end="", flush=True)
        for manner in wanted:
            for count in COUNTS[manner]:
                print(f"{beside(port, tls, manner, count):>16}", end="", flush=True)
        print()
        for it in processes:
            it.terminate()
            it.wait()


main()
