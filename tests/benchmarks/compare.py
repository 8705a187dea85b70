#!/usr/bin/env python3
"""Runs the benchmarks beside eager PyTorch (when this Python has it) and prints one table of ratios.

    tests/benchmarks/compare.py [--program build/release/bin/jnorm_benchmarks] [--rounds 3] [--filter REGEX]

Both run alternately on the same machine with the same threads; each figure is the best round's median. A BLAS kernel
that the environment forces (OPENBLAS_CORETYPE) is lifted for both, so that each runs the fastest that it knows.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
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


def run_pytorch(names):
    output = subprocess.run([sys.executable, HERE / "pytorch_work.py", *names], env=ENVIRONMENT, check=True,
                            capture_output=True, text=True).stdout
    return json.loads(output)


def has_pytorch():
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=HERE.parents[1] / "build/release/bin/jnorm_benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter", default=".")
    options = parser.parse_args()

    pytorch = has_pytorch()
    if not pytorch:
        print("PyTorch isn't installed for this Python: its column stays empty", file=sys.stderr)
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for name, result in run_ours(options.program, options.filter).items():
            ours[name] = min(ours.get(name, result), result, key=lambda r: r[0])
        for name, value in (run_pytorch(list(ours)) if pytorch else {}).items():
            theirs[name] = min(theirs.get(name, value), value)

    print(f"{'work':42} {'jnorm':>12} {'PyTorch':>12} {'ratio':>7}  system allocations")
    for name, (value, entry) in ours.items():
        other = f"{theirs[name] * 1e6:9.1f} us" if name in theirs else ""
        ratio = f"{theirs[name] / value:6.2f}x" if name in theirs else ""
        allocations = f"{entry['system_allocations']:.0f}" if "system_allocations" in entry else ""
        print(f"{name:42} {value * 1e6:9.1f} us {other:>12} {ratio:>7}  {allocations}")


if __name__ == "__main__":
    main()
