#!/usr/bin/env python3
"""The kernel benchmark's cases in eager PyTorch, on the GPU.

    kernel_benchmark | pytorch_kernels.py

Reads lines that begin with kernel, dtype and shape, and prints for each that it knows: kernel, dtype, shape, microseconds.
"""

import statistics
import sys

import torch
import torch.nn.functional as F

EPS = 1e-5
ROTATED_BYTES = 240_000_000  # four times an H200's cache
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def tensor(*shape):
    return torch.empty(shape).uniform_(-2, 2)


def backward(output, inputs):
    """The backward pass alone, as often as wanted."""
    dy = tensor(*output.shape)
    return lambda: torch.autograd.grad(output, inputs, dy, retain_graph=True)


def leaf(*shape):
    return tensor(*shape).requires_grad_()


def layer_norm(rows, columns):
    x, gamma, beta = tensor(rows, columns), tensor(columns), tensor(columns)
    return lambda: F.layer_norm(x, (columns,), gamma, beta, EPS)


def layer_norm_backward(rows, columns):
    x, gamma, beta = leaf(rows, columns), leaf(columns), leaf(columns)
    return backward(F.layer_norm(x, (columns,), gamma, beta, EPS), (x, gamma, beta))


def rms_norm(rows, columns):
    x, gamma = tensor(rows, columns), tensor(columns)
    return lambda: F.rms_norm(x, (columns,), gamma, EPS)


def rms_norm_backward(rows, columns):
    x, gamma = leaf(rows, columns), leaf(columns)
    return backward(F.rms_norm(x, (columns,), gamma, EPS), (x, gamma))


def softmax(rows, columns):
    x = tensor(rows, columns)
    return lambda: torch.softmax(x, -1)


def softmax_backward(rows, columns):
    x = leaf(rows, columns)
    return backward(torch.softmax(x, -1), x)


def cross_entropy(rows, classes):
    x, targets = tensor(rows, classes), torch.randint(classes, (rows,))
    return lambda: F.cross_entropy(x, targets)


def cross_entropy_backward(rows, classes):
    x, targets = leaf(rows, classes), torch.randint(classes, (rows,))
    return backward(F.cross_entropy(x, targets, reduction="sum"), x)


def of_rows(function):
    def make(rows, columns):
        x = tensor(rows, columns)
        return lambda: function(x)

    return make


def global_norm(count):
    """The parts are GPT-2's largest and the rest in pieces, for the same number of elements."""
    parts = [tensor(50257 * 768)] if count > 50257 * 768 else []
    rest = count - sum(part.numel() for part in parts)
    parts += [tensor(size) for size in (rest // 147,) * 146 + (rest - rest // 147 * 146,)]
    return lambda: torch.nn.utils.get_total_norm(parts)


def adamw(rows, columns):
    parameter = leaf(rows, columns)
    parameter.grad = tensor(rows, columns)
    return torch.optim.AdamW([parameter], lr=1e-3).step


def batch_norm(outer, channels, inner):
    x, gamma, beta = tensor(outer, channels, inner), tensor(channels), tensor(channels)
    return lambda: F.batch_norm(x, None, None, gamma, beta, True, 0.1, EPS)


def batch_norm_backward(outer, channels, inner):
    x, gamma, beta = leaf(outer, channels, inner), leaf(channels), leaf(channels)
    return backward(F.batch_norm(x, None, None, gamma, beta, True, 0.1, EPS), (x, gamma, beta))


def group_norm(outer, channels, inner):
    x, gamma, beta = tensor(outer, channels, inner), tensor(channels), tensor(channels)
    return lambda: F.group_norm(x, 32, gamma, beta, EPS)


def group_norm_backward(outer, channels, inner):
    x, gamma, beta = leaf(outer, channels, inner), leaf(channels), leaf(channels)
    return backward(F.group_norm(x, 32, gamma, beta, EPS), (x, gamma, beta))


WORK = {"layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward, "rms_norm": rms_norm,
        "rms_norm_backward": rms_norm_backward, "softmax": softmax, "softmax_backward": softmax_backward,
        "cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward,
        "row_sum": of_rows(lambda x: x.sum(-1)), "row_max": of_rows(lambda x: x.amax(-1)),
        "row_l2_norm": of_rows(lambda x: torch.linalg.vector_norm(x, dim=-1)),
        "row_variance": of_rows(lambda x: x.var(-1, correction=0)),
        "column_sum": of_rows(lambda x: x.sum(0)), "global_norm": global_norm, "adamw": adamw,
        "batch_norm": batch_norm, "batch_norm_backward": batch_norm_backward, "group_norm": group_norm,
        "group_norm_backward": group_norm_backward}


def microseconds(make, shape, dtype):
    """The median of several rounds, each over sets of tensors that the cache can't hold together."""
    torch.set_default_dtype(DTYPES[dtype])
    bytes_of_one = torch.Size(shape).numel() * DTYPES[dtype].itemsize
    sets = [make(*shape) for _ in range(max(2, ROTATED_BYTES // bytes_of_one + 1))]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(12):
        torch.cuda.synchronize()
        begin.record()
        for run in sets:
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end) / len(sets))
    return statistics.median(times[2:])


def main():
    if not torch.cuda.is_available():
        sys.exit("pytorch_kernels: this PyTorch finds no GPU")
    torch.set_default_device("cuda")
    torch.manual_seed(1)
    for line in sys.stdin:
        fields = line.split()
        if len(fields) < 3 or fields[0] not in WORK:
            continue
        kernel, dtype, shape = fields[:3]
        try:
            time = microseconds(WORK[kernel], [int(size) for size in shape.split("x")], dtype)
        except torch.cuda.OutOfMemoryError:
            continue
        finally:
            torch.cuda.empty_cache()
        print(f"{kernel} {dtype} {shape} {time:.1f}", flush=True)


if __name__ == "__main__":
    main()
