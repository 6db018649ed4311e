#!/usr/bin/env python3
"""Compiles the tests of the workspace once and runs their programs several at a time, the longest first.

A program that fails hides nothing: the rest runs on. What a failed test said is printed when its program ends, and
its panic once more at the end of the run, which is what is kept of a long log. While nothing ends, the tests that
are running are named once a minute, so that a run that is cut off says where it was.

The programs get EVENKEEL_BIN, the binary of the same build, unless the environment names another.

A test's time is known because the programs are asked for JSON. In Rust's test harness that is an unstable option,
which stable programs accept with RUSTC_BOOTSTRAP=1. Rejected: cargo-nextest, which takes longer to compile on two
cores than this saves, and starts a process for each test, so that tests could not share a memcached.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

# The programs that take longest, longest first; a program that is not here begins after them. The table at the end of a run tells
# when this list is out of date.
LONGEST = """
sim/cluster conformance/coordinators conformance/consistency conformance/clients hotkeys/lib conformance/memccapable
conformance/migrations conformance/drain cli/demo conformance/bad_input cli/experiment proxy/real conformance/fence
server-core/server conformance/soak server/real proxy-core/lib conformance/local_moves bench/suite conformance/migration
conformance/mediawiki experiments/lib
""".split()

# Programs that run by both kinds of sockets; nightly it is all of conformance.
BY_IO_URING = "conformance/(transcripts|bad_input|stats)"

# A program from which nothing has been heard for this long, no test begun and none ended, is taken for hung, ended and counted as
# failed. Nothing that passes comes near it, on a busy machine either.
SILENCE_MAX_S = 20 * 60

# How many lines of a failed test's panic are printed again at the end.
FAILURE_LINES = 6

# How often the running tests are named while nothing else is printed.
HEARTBEAT_S = 60

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Program:
    """One run of a test program, and what is known of it."""

    def __init__(self, name, path, folder, environment=None):
        self.name, self.path, self.folder = name, path, folder
        self.environment = environment or {}
        self.process = None
        self.running = {}  # test -> when it began
        self.times = []  # (seconds, test)
        self.passed = self.ignored = 0
        self.failures = []  # (test, what it said)
        self.heard = time.monotonic()
        self.seconds = 0.0

    def take(self, line):
        """Takes one line of the program's output."""
        try:
            event = json.loads(line)
        except ValueError:
            return  # something that a test printed past the harness
        if not isinstance(event, dict) or event.get("type") != "test":
            return
        self.heard = time.monotonic()
        name, what = event["name"], event["event"]
        if what == "started":
            self.running[name] = self.heard
        elif what in ("ok", "failed", "ignored"):
            self.running.pop(name, None)
            self.times.append((event.get("exec_time", 0.0), name))
            if what == "failed":
                self.failures.append((name, event.get("stdout", "") + event.get("message", "")))
            elif what == "ok":
                self.passed += 1
            else:
                self.ignored += 1

    def run(self, arguments):
        environment = os.environ | self.environment
        environment |= {"RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": self.folder}
        begun = self.heard = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            self.process = subprocess.Popen(
                [self.path, "-Zunstable-options", "--format=json", "--report-time", *arguments],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                text=True, errors="replace", start_new_session=True,
            )
            for line in self.process.stdout:
                self.take(line)
            status = self.process.wait()
            self.end()
            self.seconds = time.monotonic() - begun
            errors.seek(0)
            said = errors.read()
        # A program that was killed or has aborted reports nothing of what it was at.
        for test in list(self.running):
            self.failures.append((test, f"was running when the program ended with {status}"))
        if status != 0 and not self.failures:
            self.failures.append(("(the program)", f"ended with {status}"))
        if self.failures and said.strip():
            self.failures[-1] = (self.failures[-1][0], self.failures[-1][1] + "\nstandard error:\n" + said[-20_000:])

    def end(self):
        """Ends the program and what it has started and left behind."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def compile_tests(cargo_arguments):
    """Compiles; returns the programs, and the path of the binary under test or None."""
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    cargo = subprocess.run(command + cargo_arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if cargo.returncode != 0:
        sys.exit("error: the tests do not compile")
    programs, binary = [], None
    for line in cargo.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        target, folder = message["target"], os.path.dirname(message["manifest_path"])
        if message["profile"]["test"]:
            kind = target["kind"][0]
            name = target["name"] if kind == "test" else kind
            programs.append(Program(f"{os.path.basename(folder)}/{name}", message["executable"], folder))
        elif target["name"] == "evenkeel":
            binary = message["executable"]
    return programs, binary


def by_io_uring(programs, names, binary):
    """More runs of these programs with io_uring, where this machine lets a server use it."""
    refused = 2
    server = [binary, "server", "-u", "root", "-l", "127.0.0.1", "-p", "0", "-t", "1", "--io", "uring"]
    try:
        tried = subprocess.run(server, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=3)
        if tried.returncode == refused:
            say(f"no runs by io_uring: {tried.stderr.strip()}")
            return []
    except subprocess.TimeoutExpired:
        pass  # it serves
    again = [program for program in programs if re.fullmatch(names, program.name)]
    return [Program(each.name + " (io_uring)", each.path, each.folder, {"EVENKEEL_IO": "uring"}) for each in again]


last_said = time.monotonic()


def say(text):
    global last_said
    last_said = time.monotonic()
    print(text, flush=True)


def running_tests(programs):
    now = time.monotonic()
    tests = [(now - begun, each.name, test) for each in programs for test, begun in list(each.running.items())]
    return [f"{name} {test} ({seconds:.0f} s)" for seconds, name, test in sorted(tests, reverse=True)]


def watch(programs):
    """Names the running tests while nothing ends, and ends programs that hang. Never returns."""
    while True:
        time.sleep(1)
        now = time.monotonic()
        if now - last_said > HEARTBEAT_S:
            say("  running: " + ", ".join(running_tests(programs)))
        for each in programs:
            if each.process and each.process.returncode is None and now - each.heard > SILENCE_MAX_S:
                say(f"  {each.name} is taken for hung: nothing heard of it for {SILENCE_MAX_S} s")
                each.heard = now
                each.end()


def stop_on_signal(programs):
    def stop(number, _frame):
        say("cut off while running: " + ", ".join(running_tests(programs)))
        for each in programs:
            if each.process and each.process.returncode is None:
                each.end()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def run_all(programs, jobs, arguments):
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(each.run, arguments): each for each in programs}
        for ended, run in enumerate(as_completed(runs), 1):
            run.result()  # raises what went wrong in this script itself
            program = runs[run]
            total = program.passed + len(program.failures)
            verdict = "FAILED" if program.failures else "ok"
            say(f"  [{ended}/{len(programs)}] {verdict:6} {program.name}: {total} tests, {program.seconds:.1f} s")
            for test, said in program.failures:
                say(f"---- {program.name} {test}\n{said.strip()}\n----")


def why(said):
    """The lines of what a failed test said that tell why: those of its panic, else its last ones."""
    lines = said.strip().splitlines()
    panics = [number for number, line in enumerate(lines) if "panicked at" in line]
    begin = panics[0] if panics else -FAILURE_LINES
    return lines[begin:][:FAILURE_LINES]


def report(programs, seconds):
    print("\nSlowest programs and tests, in seconds:")
    for each in sorted(programs, key=lambda each: -each.seconds)[:10]:
        print(f"  {each.seconds:7.1f}  {each.name}")
    tests = [(spent, f"{each.name} {test}") for each in programs for spent, test in each.times]
    print()
    for spent, name in sorted(tests, reverse=True)[:10]:
        print(f"  {spent:7.1f}  {name}")
    failed = [(f"{each.name} {test}", said) for each in programs for test, said in each.failures]
    if failed:
        print("\nFailed:")
        for name, said in failed:
            print(f"  {name}")
            for line in why(said):
                print(f"    {line[:200]}")
    passed = sum(each.passed for each in programs)
    ignored = sum(each.ignored for each in programs)
    print(f"\n{len(programs)} programs in {seconds:.0f} s")
    print(f"{passed} passed, {len(failed)} failed, {ignored} skipped", flush=True)
    return not failed and passed > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--no-run", action="store_true", help="compile only")
    parser.add_argument("--lib", action="store_true", help="unit tests of libraries only")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="programs at a time (%(default)s)")
    parser.add_argument("--programs", default="", help="only programs whose name, such as conformance/fence, has this pattern in it")
    parser.add_argument("--io-uring", default=BY_IO_URING, metavar="PATTERN",
                        help="programs that run a second time by io_uring (%(default)s)")
    parser.add_argument("arguments", nargs="*", help="for each test program, after --: a part of tests' names, --include-ignored")
    given = parser.parse_args()

    programs, binary = compile_tests(["--lib"] if given.lib else [])
    if given.no_run:
        return
    if binary:
        os.environ.setdefault("EVENKEEL_BIN", binary)
        programs += by_io_uring(programs, given.io_uring, os.environ["EVENKEEL_BIN"])
    order = {name: place for place, name in enumerate(LONGEST)}
    programs = [each for each in programs if re.search(given.programs, each.name)]
    programs.sort(key=lambda each: (order.get(each.name, len(order)), each.name))
    stop_on_signal(programs)
    threading.Thread(target=watch, args=(programs,), daemon=True).start()
    begun = time.monotonic()
    run_all(programs, given.jobs, given.arguments)
    if not report(programs, time.monotonic() - begun):
        sys.exit(1)


if __name__ == "__main__":
    main()
