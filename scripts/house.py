#!/usr/bin/env python3
"""Prints how large the workspace is and how its modules hang together; changes are compared by it. Fails where an import
of a crate that ships runs back up, and where a word of words.txt stands.

Lines are those that are neither blank nor comments. Code is what ships; harness is what measures, simulates and
drives (bench, experiments, launch, sim, workload, testkit, and examples); tests are test modules, the folders tests and
benches, and the crate conformance.

A room is a folder of a crate; its modules are the files and folders in it, and its own file (mod.rs, lib.rs) where that
defines something. A module imports another when a `use` of the first names something of the second; a name that the room's
own file takes from a module and passes on counts as that module's. Test modules are left out. An import circle is a
set of modules that all reach each other. Imports that run back up are the fewest that a simple search finds whose
removal leaves no circle. Functions:

>>> uses("use a::{b, c::{self, d}};\\npub use super::e as f;")
[(['a', 'b'], 'b', False), (['a', 'c'], 'c', False), (['a', 'c', 'd'], 'd', False), (['super', 'e'], 'f', True)]
>>> circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})
[['b', 'c']]
>>> back_up({"a": {"b"}, "b": {"c"}, "c": {"a", "b"}})
[('b', 'c')]
>>> product, tests = split_tests("//! Doc\\nfn a() {}\\n#[cfg(test)]\\nmod tests {\\n    fn b() {}\\n}\\n")
>>> product, tests
(['//! Doc', 'fn a() {}'], ['#[cfg(test)]', 'mod tests {', '    fn b() {}', '}'])
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HARNESS = {"bench", "experiments", "launch", "sim", "workload", "testkit"}
TESTS = {"conformance"}
# A type whose impl blocks stand in more files than this is printed.
IMPL_FILES_WORTH_A_LOOK = 4
# In what ships no import runs back up; elsewhere circles may have this many modules.
CIRCLE_MAX = 3
# Where words of words.txt are looked for. History keeps its own.
WORDS_IN = ("crates", "docs", "web/src", "deploy", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md",
            ":!docs/decisions", ":!docs/experiments")
ROOM_FILES = ("mod.rs", "lib.rs", "main.rs")


def split_tests(text):
    """Lines of the product, and lines of modules under `#[cfg(test)]`, which end with a brace as far left as they begin."""
    product, tests, lines = [], [], iter(text.splitlines())
    for line in lines:
        if line.strip() != "#[cfg(test)]":
            product.append(line)
            continue
        marked = next(lines, "")
        tests += [line, marked]
        if marked.rstrip().endswith("{"):
            end = marked[: len(marked) - len(marked.lstrip())] + "}"
            for line in lines:
                tests.append(line)
                if line == end:
                    break
    return product, tests


def is_test_file(path):
    """Whether a parent module declares it, or a folder it is in, under `#[cfg(test)]`."""
    while path.name != "src":
        declared = re.compile(rf"#\[cfg\(test\)\]\n(pub(\(.*\))? )?mod {path.stem};")
        parents = [path.parent / name for name in ROOM_FILES] + [path.parent.with_suffix(".rs")]
        if any(parent.exists() and declared.search(parent.read_text()) for parent in parents):
            return True
        path = path.parent
    return False


def count(lines):
    """Code lines and comment lines."""
    lines = [line.strip() for line in lines if line.strip()]
    comments = sum(line.startswith("//") for line in lines)
    return len(lines) - comments, comments


def sizes(crate):
    """Lines of a crate: of what ships or drives, of its comments, of examples, of tests."""
    code = comments = examples = tests = 0
    for path in sorted(crate.rglob("*.rs")):
        folder = path.relative_to(crate).parts[0]
        product, inner = split_tests(path.read_text())
        if folder in ("tests", "benches") or crate.name in TESTS or folder == "src" and is_test_file(path):
            tests += count(product)[0] + count(inner)[0]
        elif folder == "examples":
            examples += count(product)[0]
            tests += count(inner)[0]
        else:
            lines, said = count(product)
            code, comments, tests = code + lines, comments + said, tests + count(inner)[0]
    return code, comments, examples, tests


def uses(text):
    """What the `use` declarations name: path, name that it gets, whether it is passed on."""
    found = []
    for passed_on, tree in re.findall(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]*);", text, re.M):
        tokens = re.findall(r"[\w*]+|::|[{},]", re.sub(r"//.*", "", tree))
        paths, stack, path, name = [], [], [], None
        for token in tokens + [","]:
            if token == "{":
                stack.append(path)
                path = list(path)
            elif token in (",", "}"):
                last = stack[-1] if stack else []
                if path != last:
                    if path[-1] == "self":
                        path = path[:-1]
                    paths.append((path, name or path[-1]))
                path, name = list(last), None
                if token == "}":
                    path = stack.pop()
                    # What follows a closed brace is a comma or another brace: the path itself was none of the names.
                    path = list(stack[-1]) if stack else []
            elif token == "as":
                name = ""
            elif name == "":
                name = token
            elif token != "::":
                path = path + [token]
        found += [(path, name, bool(passed_on)) for path, name in paths]
    return found


class Crate:
    """The modules of one crate, by path from its root."""

    def __init__(self, folder):
        self.modules = {}  # path -> product text
        self.files = {}  # path -> file
        source = folder / "src"
        for path in sorted(source.rglob("*.rs")):
            if not is_test_file(path):
                parts = list(path.relative_to(source).with_suffix("").parts)
                if path.name in ROOM_FILES:
                    parts.pop()
                self.modules[tuple(parts)] = "\n".join(split_tests(path.read_text())[0])
                self.files[tuple(parts)] = path
        self.uses = {module: uses(text) for module, text in self.modules.items()}

    def absolute(self, module, path):
        """A path from the crate's root, or None when it leads elsewhere."""
        first, rest = path[0], path[1:]
        if first == "crate":
            return tuple(rest)
        if first == "self":
            return module + tuple(rest)
        if first == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module + tuple(path)
        return module + tuple(path) if module + (first,) in self.modules else None

    def home(self, path, depth=8):
        """The module that defines what a path names, through what others pass on."""
        module = path
        while module not in self.modules:
            module = module[:-1]
        rest = path[len(module):]
        if rest and depth:
            for named, name, _ in self.uses[module]:
                target = self.absolute(module, named)
                if name == rest[0] and target is not None and target[: len(module) + 1] != module + (name,):
                    return self.home(target + rest[1:], depth - 1)
        return module

    def rooms(self):
        """Of each room: module -> modules that it imports."""
        rooms = defaultdict(lambda: defaultdict(set))
        for module in self.modules:
            for path, _, passed_on in self.uses[module]:
                target = self.absolute(module, path)
                if target is None:
                    continue
                home = self.home(target)
                room = os.path.commonprefix([module, home])
                ends = [each[len(room)] if len(each) > len(room) else "(room)" for each in (module, home)]
                # What the room's file passes on from its modules is their business.
                if ends[0] != ends[1] and not (passed_on and ends[0] == "(room)"):
                    rooms[room][ends[0]].add(ends[1])
        return rooms


def circles(arrows):
    """Sets of two and more modules that reach each other, by Tarjan's algorithm, largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(arrows.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda circle: (-len(circle), circle))


def back_up(arrows):
    """The imports against the order that Eades, Lin and Smyth's heuristic finds within each circle."""
    against = []
    for circle in circles(arrows):
        left, top, bottom = set(circle), [], []
        out = {node: arrows.get(node, set()) & left - {node} for node in circle}
        into = {node: {other for other in circle if node in out[other]} for node in circle}
        while left:
            sinks = [node for node in sorted(left) if not out[node] & left]
            sources = [node for node in sorted(left) if not into[node] & left]
            if sinks:
                bottom.insert(0, sinks[0])
                left.discard(sinks[0])
            else:
                best = sources or [max(sorted(left), key=lambda node: len(out[node] & left) - len(into[node] & left))]
                top.append(best[0])
                left.discard(best[0])
        order = {node: place for place, node in enumerate(top + bottom)}
        against += [(a, b) for a in sorted(circle) for b in sorted(out[a]) if order[b] < order[a]]
    return against


def impl_files(crate):
    """Of each type: the files with an `impl` of it, traits' apart."""
    files = defaultdict(set)
    for module, text in crate.modules.items():
        for name in re.findall(r"^\s*impl(?:<[^{]*?>)? (\w+)(?:<[^{]*>)?\s*(?:where[^{]*)?\{", text, re.M):
            files[name].add(crate.files[module])
    return files


def unwanted_words():
    """Where a word of words.txt stands: file, line and word, and what to say instead."""
    found = []
    for row in (ROOT / "scripts/words.txt").read_text().splitlines():
        if row and not row.startswith("#"):
            word, instead = row.split("\t")
            grep = subprocess.run(["git", "grep", "-nPoI", "-e", word, "--", *WORDS_IN], cwd=ROOT, capture_output=True, text=True)
            # 1: it stands nowhere.
            if grep.returncode > 1:
                sys.exit(f"words.txt: {word}: {grep.stderr}")
            found += [f"{line}: say {instead}" for line in grep.stdout.splitlines()]
    return found


def main():
    crates = sorted(path for path in (ROOT / "crates").iterdir() if (path / "Cargo.toml").exists())
    print("Lines without blank ones and comments:\n")
    print(f"  {'crate':<14}{'code':>8}{'harness':>9}{'tests':>8}{'comments':>10}")
    sums = [0, 0, 0, 0]
    for path in crates:
        code, comments, examples, tests = sizes(path)
        row = [0, code + examples] if path.name in HARNESS else [code, examples]
        row += [tests, comments]
        sums = [a + b for a, b in zip(sums, row)]
        print(f"  {path.name:<14}{row[0]:>8}{row[1]:>9}{row[2]:>8}{row[3]:>10}")
    print(f"  {'together':<14}{sums[0]:>8}{sums[1]:>9}{sums[2]:>8}{sums[3]:>10}")

    print("\nRooms with import circles: imports, those that run back up, modules in the largest circle:\n")
    print(f"  {'room':<44}{'imports':>8}{'back up':>9}{'circle':>8}")
    sums, spread, wrong = [0, 0, 0], [], []
    for path in crates:
        crate = Crate(path)
        spread += [(len(files), f"{name} ({path.name})") for name, files in impl_files(crate).items()]
        for room, arrows in sorted(crate.rooms().items()):
            row = [sum(map(len, arrows.values())), len(back_up(arrows)), max(map(len, circles(arrows)), default=0)]
            sums = [sums[0] + row[0], sums[1] + row[1], max(sums[2], row[2])]
            name = "/".join((path.name,) + room)
            if row[1]:
                print(f"  {name:<44}{row[0]:>8}{row[1]:>9}{row[2]:>8}")
            if row[1] and path.name not in HARNESS | TESTS or row[2] > CIRCLE_MAX:
                wrong += [f"{name}: {a} imports {b}" for a, b in back_up(arrows)]
    print(f"  {'all rooms':<44}{sums[0]:>8}{sums[1]:>9}{sums[2]:>8}")

    print(f"\nTypes with `impl` blocks in more than {IMPL_FILES_WORTH_A_LOOK} files:\n")
    for files, name in sorted(spread, key=lambda each: (-each[0], each[1])):
        if files > IMPL_FILES_WORTH_A_LOOK:
            print(f"  {name:<44}{files:>8}")
    failures = []
    if wrong:
        failures.append("These imports run back up; move what both sides need below them:\n  " + "\n  ".join(wrong))
    words = unwanted_words()
    if words:
        failures.append("There are better words (scripts/words.txt):\n  " + "\n  ".join(words))
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
