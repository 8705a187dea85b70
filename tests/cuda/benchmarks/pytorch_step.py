#!/usr/bin/env python3
"""The step benchmark's work in eager PyTorch on the GPU. Prints: training_step, dtype, sizes, microseconds."""

import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from pytorch_work import Model  # noqa: E402


def step_of(batch, context, width, layers):
    model = Model(context, width, layers)
    tokens, targets = torch.randint(256, (2, batch, context))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(tokens).view(-1, 256), targets.view(-1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def microseconds(step, steps=20):
    """The median of five rounds of queued steps."""
    for _ in range(5):
        step()
    rounds = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / steps * 1e6)
    return statistics.median(rounds)


def main():
    if not torch.cuda.is_available():
        sys.exit("pytorch_step: this PyTorch finds no GPU")
    torch.set_default_device("cuda")
    torch.manual_seed(1)
    for sizes in ((16, 64, 128, 6), (32, 256, 512, 12)):
        print("training_step float32", "x".join(map(str, sizes)), f"{microseconds(step_of(*sizes)):.1f}", flush=True)


if __name__ == "__main__":
    main()
