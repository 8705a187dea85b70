"""Draws inputs, runs PyTorch on them, and collects entries of golden values.

An entry is one call of an operation, "<operation>/<shapes, options, note>", and has

    in.x        an input x
    option.axes what has no gradient: axes, sizes, eps, masks, indices, targets
    y           the output
    d.y         a random cotangent
    d.x         the gradient of <y, d.y> by x
    dot.x       a random tangent of x
    dot.y       the derivative of y along all tangents, which is that of s = sum of <d.x, dot.x> over the inputs by d.y
    dd.x        the derivative of s by x: a second-order value

What is drawn is float32, so that a test in float32 starts from the same numbers; what PyTorch computes is float64.
Every entry draws from a generator of its own, so a new one leaves the others as they are.
"""

import zlib

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

NAN, INFINITY = float("nan"), float("inf")


# Inputs: how one is drawn from a generator.

def normal(*shape):
    return lambda rng: rng.standard_normal(shape)


def positive(*shape):
    return lambda rng: rng.uniform(0.5, 2.0, shape)


def given(values):
    return lambda rng: np.array(values, dtype=np.float64)


def zeros(*shape):
    return lambda rng: np.zeros(shape)


def as_float32_numbers(array):
    return torch.tensor(np.asarray(array).astype(np.float32).astype(np.float64))


def with_some(width, *names):
    """{}, {gamma}, {gamma, beta}, {beta}: any of the named parameters."""
    for bits in range(2 ** len(names)):
        yield {name: normal(width) for i, name in enumerate(names) if bits >> i & 1}


# Options that are tensors of int32; drawn once, here.

def random_integers(name, below, shape):
    return np.array(np.random.default_rng(zlib.crc32(name.encode())).integers(0, below, shape), np.int32)


def random_mask(name, shape):
    return np.array(random_integers(name, 4, shape) > 0, np.int32)  # three of four are 1


def as_stored(option):
    """Integers and truth values as int32, others as float64."""
    array = np.asarray(option)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int32)


def size_of(array):
    return str(list(array.shape)).replace(" ", "")


def described(inputs, options, note):
    """What tells an entry from the operation's others: "x [2,3], gamma beta [3], eps 0.5"."""
    names_by_size = {}
    for name, x in inputs.items():
        names_by_size.setdefault(size_of(x), []).append(name)
    parts = [f"{' '.join(names)} {size}" for size, names in names_by_size.items()]
    for name, option in options.items():
        parts.append(f"{name} {size_of(option) if isinstance(option, np.ndarray) else option}")
    return ", ".join(parts + ([note] if note else []))


def derivatives(results, by):
    """torch.autograd.grad, with zeros where nothing depends on it."""
    if not results.requires_grad:
        return [torch.zeros_like(x) for x in by]
    found = torch.autograd.grad(results, by, create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, by)]


class Golden:
    def __init__(self):
        self.tensors = {}

    def add(self, operation, function, inputs, options={}, note="", order=2):
        """`function` takes the inputs and the options by name. Order 0: the output; 1: gradients too; 2: all."""
        rng = np.random.default_rng(zlib.crc32(f"{operation} {inputs.keys()} {options.keys()} {note}".encode()))
        xs = {name: as_float32_numbers(draw(rng)).requires_grad_() for name, draw in inputs.items()}
        self.entry = f"{operation}/{described(xs, options, note)}"
        assert f"{self.entry}/y" not in self.tensors, f"{self.entry} stands here twice"
        for name, x in xs.items():
            self.keep_drawn(f"in.{name}", x)
        for name, option in options.items():
            self.keep(f"option.{name}", as_stored(option))

        with sdpa_kernel(SDPBackend.MATH):  # the one that can be differentiated twice
            y = function(**xs, **{name: as_argument(option) for name, option in options.items()})
        self.keep("y", y)
        if order >= 1:
            self.differentiate(xs, y, rng, order)

    def differentiate(self, xs, y, rng, order):
        u = as_float32_numbers(rng.standard_normal(tuple(y.shape))).requires_grad_()
        gradients = derivatives((y * u).sum(), list(xs.values()))
        self.keep_drawn("d.y", u)
        self.keep_each("d", xs, gradients)
        if order == 1:
            return
        vs = [as_float32_numbers(rng.standard_normal(tuple(x.shape))) for x in xs.values()]
        s = sum((gradient * v).sum() for gradient, v in zip(gradients, vs))
        *second, output_tangent = derivatives(s, [*xs.values(), u])
        for name, v in zip(xs, vs):
            self.keep_drawn(f"dot.{name}", v)
        self.keep("dot.y", output_tangent)
        self.keep_each("dd", xs, second)

    def keep(self, name, value):
        array = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
        self.tensors[f"{self.entry}/{name}"] = array.copy(order="C")

    def keep_drawn(self, name, value):
        self.keep(name, value.float())

    def keep_each(self, kind, names, values):
        for name, value in zip(names, values):
            self.keep(f"{kind}.{name}", value)


def as_argument(option):
    return torch.from_numpy(option) if isinstance(option, np.ndarray) else option
