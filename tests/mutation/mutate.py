#!/usr/bin/env python3
"""Makes each hand-written derivative wrong, term by term, and lists the mistakes that no test notices.

    tests/mutation/run [--list] [--file core/kernels/norm.cpp]... [--mutant N]... [--self-check]

A mutant drops or negates one term of a derivative, or puts 1 in the place of one factor; sites.py says where. All of
them are compiled at once into a copy of the sources in build/mutation/source, each behind a switch (mutant.hpp). Then
the tests of core/ and autograd/ run once for each mutant, JNORM_MUTANT=N in the environment: only the test files whose
run reaches the mutant's code, the quickest first, until one fails. A mutant that all of them pass has survived.

Mutants that provably change nothing stand in equivalent.txt, each with the reason. One that is killed after all, or
that no longer exists, is an error: the list can't grow stale.

Exits with 0 if every mutant was killed, 3 if some survived, 1 if the run itself failed.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sites import Site, find_sites
from syntax_tree import ParseFailed, parse

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MUTATED = re.compile(r"autograd/(ops/|custom\.|norm_block|norm_jacobian)|core/kernels/|tests/mutation/self_check/")
HEADER = "tests/mutation/mutant.hpp"
# Where the affine() is declared by which a mutant changes a tensor or a recorded value.
AFFINE = {"autograd/": "autograd/ops/arithmetic.hpp", "core/": "core/operations.hpp"}
JOBS = os.cpu_count() or 1
SURVIVED = 3


class RunFailed(Exception):
    """The run can't say anything about the tests."""


@dataclass(frozen=True)
class Mutant:
    number: int
    switch: int  # its site's first mutant, by whose number the site is known
    site: Site
    line: int
    original: str
    mutated: str

    def __str__(self):
        place = f"{self.site.path}:{self.line}: #{self.number} in {self.site.function}"
        return f"{place}: {self.original}  =>  {self.mutated}"

    @property
    def key(self):
        return (self.site.path, self.site.function, self.original, self.mutated)


@dataclass
class Suite:
    """The tests of one file, and what their run without a mutant showed."""

    name: str
    command: list
    seconds: float = 0.0
    reached: frozenset = frozenset()


# Finding and writing the mutants


def relative_to_root(path):
    """The path below the repository of a file whose derivatives are mutated, otherwise None."""
    resolved = Path(path).resolve()
    if not resolved.is_relative_to(ROOT):
        return None
    relative = str(resolved.relative_to(ROOT))
    return relative if MUTATED.match(relative) else None


def sites_of(command, folder):
    return find_sites(parse(command, folder, "jnorm"), relative_to_root)


def all_sites(commands):
    with ProcessPoolExecutor(JOBS) as pool:
        found = pool.map(sites_of, *zip(*commands))
        unique = {(site.kind, site.path, site.begin, site.end): site for sites in found for site in sites}
    return sorted(unique.values(), key=lambda site: (site.path, site.begin, -site.end, site.kind))


def one_line(text):
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text)).strip()


def mutants_of(sites):
    """Site -> its mutants. A term has two, a factor one."""
    mutants, number = {}, 1
    texts = {path: (ROOT / path).read_text() for path in {site.path for site in sites}}
    for site in sites:
        text = texts[site.path]
        before, after = text[site.context[0] : site.begin], text[site.end : site.context[1]]
        expression = text[site.begin : site.end]
        line = text.count("\n", 0, site.begin) + 1
        changes = ["[0]", f"[-({expression})]"] if site.kind == "term" else ["[1]"]
        mutants[site], switch = [], number
        for change in changes:
            original, mutated = one_line(before + expression + after), one_line(before + change + after)
            mutants[site].append(Mutant(number, switch, site, line, original, mutated))
            number += 1
    return mutants


def with_switches(text, mutants):
    """A source with each of its sites wrapped in the switch of its mutants."""
    insertions = []  # (offset, order at that offset, text)
    for site, (first, *_) in mutants.items():
        length = site.end - site.begin
        insertions.append((site.begin, (1, -length), f"::jnorm::mutation::{site.kind}({first.number}, "))
        insertions.append((site.end, (0, length), ")"))
    pieces, position = [], 0
    for offset, _, insertion in sorted(insertions):
        pieces += [text[position:offset], insertion]
        position = offset
    return "".join(pieces) + text[position:]


def mutated_sources(mutants):
    by_path = defaultdict(dict)
    for site, own in mutants.items():
        by_path[site.path][site] = own
    sources = {}
    for path, own in by_path.items():
        header = next((name for folder, name in AFFINE.items() if path.startswith(folder)), None)
        includes = [f'#include "{ROOT / HEADER}"'] + ([f"#include <jnorm/{header}>"] if header else [])
        text = with_switches((ROOT / path).read_text(), own)
        sources[path] = "\n".join([*includes, "#line 1", text])
    return sources


# The library


def compile_commands():
    """The sources that may hold derivatives: [(command, folder)]."""
    found = {}
    for entry in json.loads((ROOT / "build/mutation/compile_commands.json").read_text()):
        path = relative_to_root(entry["file"])
        if path:
            words = shlex.split(entry["command"])
            compiler = next(i for i, word in enumerate(words) if "clang++" in word)
            output = words.index("-o")
            found[path] = (words[compiler:output] + [entry["file"]], entry["directory"])
    return [found[path] for path in sorted(found)]


def write_copy(sources, copy):
    """The repository's files, some of them replaced. What stays the same isn't written, so that it isn't rebuilt."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    wanted = {path for path in listed.split("\0") if path and (ROOT / path).is_file()}
    for path in wanted:
        content = sources[path].encode() if path in sources else (ROOT / path).read_bytes()
        target = copy / path
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for folder in ("core", "autograd", "layers", "tests", "examples"):
        for path in (copy / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(copy)) not in wanted:
                path.unlink()


def build(sources):
    """Builds the library with all mutants in it, and its tests: the suites that may kill one."""
    copy = ROOT / "build/mutation/source"
    write_copy(sources, copy)
    folder = copy / "build/mutation"
    programs = ["core_tests", "autograd_tests"]
    for command in (["cmake", "-S", str(copy), "--preset", "mutation"],
                    ["cmake", "--build", str(folder), "--target", *programs, "--parallel", str(JOBS)]):
        result = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            raise RunFailed(result.stdout[-6000:] + "\nthe sources with the mutants in them don't compile")
    suites = []
    for program in programs:
        folder_of_tests = ROOT / "tests" / program.removesuffix("_tests")
        for path in sorted(folder_of_tests.rglob("*_test.cpp")):
            name = str(path.relative_to(ROOT / "tests"))
            command = [str(folder / "bin" / program), f"--source-file=*/{name}", "--abort-after=1", "--minimal"]
            suites.append(Suite(name, command))
    return suites


# Running the tests


def run_suite(suite, variables, limit=600.0):
    """Whether the tests passed."""
    environment = {**os.environ, **variables}
    try:
        result = subprocess.run(suite.command, env=environment, timeout=limit, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def measure(suite):
    """Notes how long the tests take and which mutants' code they reach. They must pass."""
    with tempfile.NamedTemporaryFile("r") as file:
        started = time.monotonic()
        if not run_suite(suite, {"JNORM_MUTANTS_REACHED": file.name}):
            raise RunFailed(f"the tests of {suite.name} fail without any mutant")
        suite.seconds = time.monotonic() - started
        suite.reached = frozenset(int(line) for line in file)


def killer(mutant, suites):
    """The suite that notices the mutant, or None."""
    for suite in suites:
        if mutant.switch in suite.reached:
            limit = 20.0 + 20.0 * suite.seconds
            if not run_suite(suite, {"JNORM_MUTANT": str(mutant.number)}, limit):
                return suite
    return None


def read_equivalents():
    """Key of a mutant -> the reason why it changes nothing."""
    equivalents = {}
    for line in (HERE / "equivalent.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            path, function, change, reason = (field.strip() for field in line.split(" | ", 3))
            original, mutated = (side.strip() for side in change.split("=>"))
            equivalents[(path, function, original, mutated)] = reason
    return equivalents


def run_mutants(mutants, suites):
    """Mutant -> the suite that killed it, or None."""
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(measure, suites))
        suites = sorted(suites, key=lambda suite: suite.seconds)
        return dict(zip(mutants, pool.map(lambda mutant: killer(mutant, suites), mutants)))


def report(killers, equivalents, complete):
    """Prints what became of the mutants; returns the exit status."""
    by_path = defaultdict(list)
    for mutant, suite in killers.items():
        by_path[mutant.site.path].append((mutant, suite))
    survivors = [mutant for mutant, suite in killers.items() if suite is None and mutant.key not in equivalents]
    equivalent = [mutant for mutant, suite in killers.items() if suite is None and mutant.key in equivalents]
    for path, found in sorted(by_path.items()):
        killed = sum(suite is not None for _, suite in found)
        print(f"{path}: {len(found)} mutants, {killed} killed")
    for mutant in survivors:
        print(f"SURVIVED {mutant}")

    seen = {mutant.key for mutant in killers}
    changing = {mutant.key for mutant, suite in killers.items() if suite is not None} & equivalents.keys()
    stale = sorted(changing | ((equivalents.keys() - seen) if complete else set()))
    for path, function, original, mutated in stale:
        print(f"equivalent.txt: no such mutant survives: {path} | {function} | {original} => {mutated}")

    killed = len(killers) - len(survivors) - len(equivalent)
    print(f"{len(killers)} mutants, {killed} killed, {len(survivors)} survived, {len(equivalent)} equivalent "
          "(equivalent.txt says why); all compiled")
    return SURVIVED if survivors else 1 if stale else 0


# The run's own test


def self_check():
    """Of a derivative that its test checks in one point only, the run must find what the point doesn't show."""
    folder = HERE / "self_check"
    with tempfile.TemporaryDirectory() as scratch:
        mutants = mutants_of(all_sites([(["clang++", "-std=c++20", str(folder / "parabola.cpp")], str(ROOT))]))
        source = Path(scratch) / "parabola.cpp"
        source.write_text(mutated_sources(mutants)["tests/mutation/self_check/parabola.cpp"])
        program = Path(scratch) / "test"
        command = ["clang++", "-std=c++20", "-I", folder, source, folder / "parabola_test.cpp", "-o", program]
        subprocess.run([str(word) for word in command], check=True)
        flat = [mutant for own in mutants.values() for mutant in own]
        killers = run_mutants(flat, [Suite("parabola_test", [str(program)])])
    verdicts = {mutant.mutated: "killed" if suite else "survived" for mutant, suite in killers.items()}
    expected = dict(line.rsplit(" # ") for line in (folder / "expected.txt").read_text().splitlines())
    for mutated in sorted(verdicts.keys() | expected.keys()):
        got, right = verdicts.get(mutated, "missing"), expected.get(mutated, "missing")
        if got != right:
            print(f"self-check: {mutated}: {got}, but expected: {right}")
    if verdicts == expected:
        survived = list(verdicts.values()).count("survived")
        print(f"self-check passed: {len(verdicts)} mutants, {survived} survived, as expected")
    return 0 if verdicts == expected else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--file", action="append", help="only the mutants of this source")
    parser.add_argument("--mutant", action="append", type=int, help="only the mutant of this number")
    parser.add_argument("--self-check", action="store_true", help="test the mutation run itself")
    options = parser.parse_args()
    if options.self_check:
        return self_check()

    started = time.monotonic()
    mutants = mutants_of(all_sites(compile_commands()))
    flat = [mutant for own in mutants.values() for mutant in own]
    chosen = [mutant for mutant in flat if (not options.file or mutant.site.path in options.file)
              and (not options.mutant or mutant.number in options.mutant)]
    if not chosen:
        raise RunFailed("there is no such mutant; --list prints them")
    if options.list:
        print("\n".join(str(mutant) for mutant in chosen))
        return 0
    suites = build(mutated_sources(mutants))
    built = time.monotonic()
    status = report(run_mutants(chosen, suites), read_equivalents(), complete=chosen == flat)
    print(f"{built - started:.0f} s to build, {time.monotonic() - built:.0f} s to test")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunFailed, ParseFailed) as failure:
        print(f"tests/mutation/run: {failure}", file=sys.stderr)
        sys.exit(1)
