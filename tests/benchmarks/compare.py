#!/usr/bin/env python3
"""Runs the benchmarks beside eager PyTorch and, where it has the same work, JAX under jit, and prints one table of ratios.

    tests/benchmarks/compare.py [--program build/release/bin/jnorm_benchmarks] [--rounds 3] [--filter REGEX]

Either is left out when this Python doesn't have it. All run alternately on the same machine with the same threads; each figure is the best round's median. A BLAS kernel
that the environment forces (OPENBLAS_CORETYPE) is lifted for all, so that each runs the fastest that it knows.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
JAX_WORK = {"block_jacobian"}
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}


def run_ours(program, pattern):
    """Name -> (seconds, counters)."""
    output = subprocess.run(
        [program, "--benchmark_format=json", f"--benchmark_filter={pattern}", "--benchmark_repetitions=5",
         "--benchmark_min_time=0.1", "--benchmark_report_aggregates_only=true"],
        env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    results = {}
    for entry in json.loads(output)["benchmarks"]:
        if entry.get("aggregate_name") == "median":
            name = entry["run_name"].removesuffix("/real_time")
            results[name] = (entry["real_time"] * 1e-6, entry)
    return results


def run_script(script, names):
    """Name -> seconds."""
    output = subprocess.run([sys.executable, HERE / script, *names], env=ENVIRONMENT, check=True, capture_output=True,
                            text=True).stdout
    return json.loads(output)


def run_pytorch(names):
    return run_script("pytorch_work.py", names)


def run_jax(names):
    """One process for each number of threads: JAX takes as many as the process has cores."""
    by_threads = {}
    for name in names:
        if name.split("/")[0] in JAX_WORK:
            by_threads.setdefault(name.split("/")[-1], []).append(name)
    results = {}
    for same_threads in by_threads.values():
        results |= run_script("jax_work.py", same_threads)
    return results


def has_module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


def keep_best(best, results):
    for name, value in results.items():
        best[name] = min(best.get(name, value), value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=HERE.parents[1] / "build/release/bin/jnorm_benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter", default=".")
    options = parser.parse_args()

    others = {}
    for label, module, run in (("PyTorch", "torch", run_pytorch), ("JAX", "jax", run_jax)):
        if has_module(module):
            others[label] = (run, {})
        else:
            print(f"{label} isn't installed for this Python: its columns are left out", file=sys.stderr)
    ours = {}
    for _ in range(options.rounds):
        for name, result in run_ours(options.program, options.filter).items():
            ours[name] = min(ours.get(name, result), result, key=lambda r: r[0])
        for run, best in others.values():
            keep_best(best, run(list(ours)))

    print(f"{'work':42} {'jnorm':>12}" + "".join(f" {label:>12} {'ratio':>7}" for label in others)
          + "  system allocations")
    for name, (value, entry) in ours.items():
        row = f"{name:42} {value * 1e6:9.1f} us"
        for _, best in others.values():
            row += f" {best[name] * 1e6:9.1f} us {best[name] / value:6.2f}x" if name in best else f" {'':12} {'':7}"
        allocations = f"{entry['system_allocations']:.0f}" if "system_allocations" in entry else ""
        print(f"{row}  {allocations}".rstrip())


if __name__ == "__main__":
    main()
