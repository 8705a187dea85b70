"""Calls of every operation, in PyTorch, one function a family.

Entries at an edge (NaN, infinity, a tie, a zero vector) have the output and the gradients, and the rest where PyTorch
and jnorm mean the same by it. Comments below name the edges where they don't.
"""

import numpy as np
import torch
import torch.nn.functional as F

from recording import (INFINITY, NAN, given, normal, positive, random_integers, random_mask, with_some, zeros)


# Elementwise

SHAPES = [(), (19,), (2, 1, 3, 2), (0, 3)]


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def affine(x, scale, shift):
    return scale * x + shift


UNARY = {"negate": torch.neg, "exp": torch.exp, "square": torch.square, "tanh": torch.tanh, "erf": torch.erf,
         "expm1": torch.expm1, "sigmoid": torch.sigmoid, "abs": torch.abs, "sign": torch.sign, "relu": F.relu,
         "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu}
UNARY_OF_POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
                     "reciprocal": torch.reciprocal}


def of_x(function):
    return lambda x: function(x)


EDGES = [NAN, INFINITY, -INFINITY, 0.0, -0.0]
# What differs here on purpose is left out. A NaN stays one: PyTorch's sign(NaN) is 0, and relu passes the cotangent of
# a NaN on. GELU and SiLU at infinity are their limits: PyTorch's gelu(-inf) is -inf * 0.
EDGES_OF = {"abs": EDGES[1:], "sign": EDGES[1:], "relu": EDGES[1:],
            "gelu": [NAN, 0.0], "gelu_tanh": [NAN, 0.0], "silu": [NAN, 0.0]}


def elementwise(golden):
    for name, function in UNARY.items():
        for shape in SHAPES:
            golden.add(name, of_x(function), {"x": normal(*shape)})
    for name, function in UNARY_OF_POSITIVE.items():
        for shape in SHAPES:
            golden.add(name, of_x(function), {"x": positive(*shape)})
    for name, function in {**UNARY, **UNARY_OF_POSITIVE}.items():
        golden.add(name, of_x(function), {"x": given(EDGES_OF.get(name, EDGES))}, note="edges", order=1)
    golden.add("relu", of_x(F.relu), {"x": given([NAN])}, note="NaN", order=0)
    for options in [{"scale": -1.5, "shift": 0.25}, {"scale": 0.0, "shift": 1.0}]:
        golden.add("affine", affine, {"x": normal(2, 3)}, options)
    for dtype in [torch.float32, torch.float16, torch.bfloat16]:
        name = str(dtype).removeprefix("torch.")
        for shape in [(19,), (0, 3)]:
            golden.add(f"to {name} and back", lambda x: x.to(dtype).to(torch.float64), {"x": normal(*shape)})
    golden.add("affine", affine, {"x": given(EDGES)}, {"scale": 0.0, "shift": 1.0}, note="edges", order=1)


def powers(golden):
    def power(x, p):
        return x ** p
    for p in [0.0, 1.0, 2.0, 3.0, -1.0]:
        golden.add("pow by a number", power, {"x": normal(7)}, {"p": p})
    for p in [0.5, -0.5, 2.5]:
        golden.add("pow by a number", power, {"x": positive(2, 3)}, {"p": p})
    for p in [0.0, 1.0, 2.0, 3.0, -1.0, -2.0]:
        golden.add("pow by a number", power, {"x": given([*EDGES, -1.5])}, {"p": p}, note="edges", order=1)
    # PyTorch takes sqrt for p = 0.5: NaN for -inf and -0 for -0, where IEEE 754's pow, as here, has +inf and +0.
    golden.add("pow by a number", power, {"x": given([NAN, INFINITY, 0.0, -1.5])}, {"p": 0.5}, note="edges", order=1)
    for a, b in PAIRS:
        golden.add("pow", lambda a, b: a ** b, {"a": positive(*a), "b": normal(*b)})
    # Left out: the gradient of NaN^0, NaN here and 0 in PyTorch.
    bases, exponents = np.array([(a, b) for a in [NAN, INFINITY, 0.0, 1.0, -2.0] for b in [NAN, 0.0, 2.0, 0.5, -1.0]
                                 if not (np.isnan(a) and b == 0)]).T
    golden.add("pow", lambda a, b: a ** b, {"a": given(bases), "b": given(exponents)}, note="edges", order=1)


BINARY = {"add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "divide": torch.divide}
PAIRS = [((), ()), ((19,), (19,)), ((2, 3), ()), ((2, 1), (1, 3)), ((3,), (2, 1, 3)), ((2, 1, 3, 1), (4, 1, 2)),
         ((0, 3), (3,))]
EDGE_PAIRS = np.array([(a, b) for a in [NAN, INFINITY, -INFINITY, 0.0, 1.5] for b in [NAN, INFINITY, 0.0, -2.0]]).T


def arithmetic(golden):
    for name, function in BINARY.items():
        def call(a, b):
            return function(a, b)
        for a, b in PAIRS:
            golden.add(name, call, {"a": normal(*a), "b": positive(*b)})
        golden.add(name, call, {"a": given(EDGE_PAIRS[0]), "b": given(EDGE_PAIRS[1])}, note="edges", order=1)


def selections(golden):
    for name, function in {"maximum": torch.maximum, "minimum": torch.minimum}.items():
        def call(a, b):
            return function(a, b)
        for a, b in PAIRS:
            golden.add(name, call, {"a": normal(*a), "b": normal(*b)})
        golden.add(name, call, {"a": given([1, 2, INFINITY]), "b": given([1, 2.5, INFINITY])}, note="ties", order=1)
        # Of a NaN the value alone: the gradients are NaN here, and the whole cotangent for both sides in PyTorch.
        golden.add(name, call, {"a": given(EDGE_PAIRS[0]), "b": given(EDGE_PAIRS[1])}, note="edges", order=0)
        golden.add(f"{name} with a number", lambda x, number: function(x, torch.tensor(number, dtype=x.dtype)),
                   {"x": normal(2, 3)}, {"number": 0.25})
    def clamp(x, low=None, high=None):
        return torch.clamp(x, low, high)
    for bounds in [{"low": -0.5}, {"high": 0.5}, {"low": -0.5, "high": 0.5}]:
        for shape in [(), (19,), (2, 1, 3), (0, 3)]:
            golden.add("clamp", clamp, {"x": normal(*shape)}, bounds)
        golden.add("clamp", clamp, {"x": given([INFINITY, -INFINITY])}, bounds, note="infinite", order=1)
        # Without gradients: here it passes at the ends of the interval, in this PyTorch it doesn't; and a NaN stays.
        golden.add("clamp", clamp, {"x": given([-0.5, 0.5, NAN])}, bounds, note="edges", order=0)
    def where(a, b, condition):
        return torch.where(condition != 0, a, b)
    for a, b, condition in [((), (), ()), ((5,), (5,), (5,)), ((2, 3), (3,), (2, 1)), ((3,), (), (2, 1, 3)),
                            ((0, 3), (3,), (3,))]:
        golden.add("where", where, {"a": normal(*a), "b": normal(*b)}, {"condition": random_mask("where", condition)})
    golden.add("where", where, {"a": given([1, NAN, INFINITY, 2]), "b": given([NAN, 1, 2, INFINITY])},
               {"condition": np.array([1, 0, 0, 1], np.int32)}, note="edges not taken")


# Shapes

def shapes(golden):
    for shape, result in [((6,), (2, 3)), ((2, 3), (3, 1, 2)), ((1, 1), ()), ((0, 3), (2, 0))]:
        golden.add("reshape", lambda x, shape: x.reshape(shape), {"x": normal(*shape)}, {"shape": result})
    for shape, result in [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((2, 1, 3, 1), (2, 2, 3, 2)),
                          ((1, 3), (0, 3))]:
        golden.add("broadcast_to", lambda x, shape: torch.broadcast_to(x, tuple(shape)), {"x": normal(*shape)},
                   {"shape": result})
    for shape, axes in [((3,), [0]), ((2, 3), [1, 0]), ((2, 3, 4), [2, 0, 1]), ((2, 1, 3, 2), [0, 2, 1, 3]),
                        ((2, 0, 3), [2, 1, 0])]:
        golden.add("permute", lambda x, axes: x.permute(*axes), {"x": normal(*shape)}, {"axes": axes})
    for shape in [(2, 3), (1, 4), (2, 3, 2), (2, 2, 1, 3), (0, 3)]:
        golden.add("transpose", lambda x: x.transpose(-1, -2), {"x": normal(*shape)})
    for axes in [(0, 2), (-1, 1), (1, 1)]:
        golden.add("transpose of two axes", lambda x, axes: x.transpose(*axes), {"x": normal(2, 3, 4)}, {"axes": axes})
    for shape, axis in [((), 0), ((3,), 1), ((2, 3), -1), ((2, 3), 1), ((0, 3), 0)]:
        golden.add("unsqueeze", lambda x, axis: x.unsqueeze(axis), {"x": normal(*shape)}, {"axis": axis})
    for shape, axis in [((1,), 0), ((2, 1, 3), 1), ((2, 3, 1), -1)]:
        golden.add("squeeze", lambda x, axis: x.squeeze(axis), {"x": normal(*shape)}, {"axis": axis})
    for shape, first, last in [((3,), 0, -1), ((2, 3, 4), 0, 1), ((2, 1, 3, 2), 1, -1), ((2, 0, 3), 0, -1)]:
        golden.add("flatten", lambda x, first, last: x.flatten(first, last), {"x": normal(*shape)},
                   {"first": first, "last": last})


def placed(x, part, whole):
    y = torch.zeros(whole, dtype=x.dtype)
    y[part] = x
    return y


def parts(golden):
    def sliced(x, axis, start=None, stop=None, step=1):
        return x.movedim(axis, 0)[start:stop:step].movedim(0, axis)
    for shape, axis, ends in [
            ((5,), 0, {"start": 1, "stop": 4}), ((5,), 0, {"start": -2}), ((5,), 0, {"stop": -1}),
            ((7, 2), 0, {"start": 1, "step": 3}), ((2, 1, 3), -1, {"stop": 2}), ((2, 3), 1, {"stop": 9}),
            ((2, 3, 4, 2), 2, {"start": 1, "stop": 3}), ((3, 2), 0, {"start": 2, "stop": 2})]:
        golden.add("slice", sliced, {"x": normal(*shape)}, {"axis": axis, **ends})
    golden.add("slice [1:3, :, ::2]", lambda x: x[1:3, :, ::2], {"x": normal(4, 2, 5)})
    golden.add("place at [1:3, ::2] of [4, 5]", lambda x: placed(x, np.s_[1:3, ::2], (4, 5)), {"x": normal(2, 3)})

    def concat(axis, **parts):
        return torch.cat(list(parts.values()), axis)
    for axis, shapes in [(0, [(3,)]), (0, [(3,), (1,), (0,), (2,)]), (1, [(2, 3), (2, 1)]),
                         (-1, [(2, 1, 3), (2, 1, 2)]), (1, [(2, 1, 3)] * 6)]:
        golden.add("concat", concat, {name: normal(*shape) for name, shape in zip("abcdef", shapes)}, {"axis": axis})
    for axis, shapes in [(0, [()] * 3), (1, [(2, 3)] * 2), (-1, [(2, 1)] * 5)]:
        golden.add("stack", lambda axis, **parts: torch.stack(list(parts.values()), axis),
                   {name: normal(*shape) for name, shape in zip("abcdef", shapes)}, {"axis": axis})
    for index in range(3):
        golden.add("split into [1, 3, 2]", lambda x, axis, index: x.split([1, 3, 2], axis)[index], {"x": normal(2, 6)},
                   {"axis": 1, "index": index})
        golden.add("split into 3", lambda x, axis, index: x.tensor_split(3, axis)[index], {"x": normal(6, 2)},
                   {"axis": 0, "index": index})


def indexing(golden):
    for shape, axis, index in [((4,), 0, [2]), ((4,), 0, [1, 3, 1, 0, 1]), ((4, 2), 0, [3, 3]), ((2, 1, 3), -1, [0, 2]),
                               ((2, 3, 2), 1, [2, 0, 2, 1]), ((4, 2), 0, [])]:
        index = np.array(index, np.int32)
        golden.add("index_select", lambda x, axis, index: x.index_select(axis, index), {"x": normal(*shape)},
                   {"axis": axis, "index": index}, note=f"of {list(index)}")
    for shape, axis, index, whole in [((3,), 0, [1, 3, 1], (4,)), ((2, 3), 1, [0, 4, 0], (2, 5)),
                                      ((2, 1), 0, [2, 0], (3, 1))]:
        golden.add("index_add",
                   lambda x, axis, index, whole: torch.zeros(whole, dtype=x.dtype).index_add(axis, index, x),
                   {"x": normal(*shape)}, {"axis": axis, "index": np.array(index, np.int32), "whole": whole})
    for shape, axis, of in [((4,), 0, (6,)), ((2, 3), 1, (2, 4)), ((4, 3), 0, (2, 3)), ((2, 1, 3), -1, (2, 1, 5)),
                            ((2, 3, 2), 1, (2, 2, 2)), ((3, 2), 0, (0, 2))]:
        index = random_integers(f"gather {shape}", shape[axis], of)
        golden.add("gather", lambda x, axis, index: x.gather(axis, index.long()), {"x": normal(*shape)},
                   {"axis": axis, "index": index})
        golden.add("scatter_add",
                   lambda x, axis, index, whole: torch.zeros(whole, dtype=x.dtype).scatter_add(axis, index.long(), x),
                   {"x": normal(*of)}, {"axis": axis, "index": index, "whole": shape})


# Reductions

AXES = [((), {}), ((2, 3), {}), ((5,), {"axes": [0]}), ((2, 3), {"axes": [0]}), ((2, 3), {"axes": [1], "keep": True}),
        ((2, 3, 2), {"axes": [0, -1], "keep": True}), ((2, 1, 3, 2), {"axes": [1]}),
        ((2, 1, 2, 3), {"axes": [1, 2, 3]})]


def over_axes(function):
    """A reduction of PyTorch's, over all axes if none is named."""
    def reduce(x, axes=None, keep=False, **options):
        return function(x, dim=tuple(range(x.dim())) if axes is None else tuple(axes), keepdim=keep, **options)
    return reduce


def vector_norm(order):
    return lambda x, dim, keepdim: torch.linalg.vector_norm(x, order, dim, keepdim)


REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "logsumexp": torch.logsumexp,
              "l1_norm": vector_norm(1), "l2_norm": vector_norm(2), "max_norm": vector_norm(INFINITY)}


def reductions(golden):
    for name, function in REDUCTIONS.items():
        for shape, axes in [*AXES, ((0, 3), {"axes": [1]})]:
            golden.add(name, over_axes(function), {"x": normal(*shape)}, axes)
        for note, rows, order in [("infinite", [[INFINITY, -INFINITY], [INFINITY, 1]], 1),
                                  ("ties", [[1, 2, 2], [-2, -2, 1], [0, 0, 0]], 1),
                                  # |NaN| has the derivative 0 in PyTorch; here it stays NaN.
                                  ("NaN", [[NAN, 1]], 0 if name in ["l1_norm", "max_norm"] else 1)]:
            golden.add(name, over_axes(function), {"x": given(rows)}, {"axes": [1]}, note=note, order=order)
    for name in ["sum", "mean", "logsumexp", "l1_norm", "l2_norm"]:
        golden.add(name, over_axes(REDUCTIONS[name]), {"x": normal(0, 3)}, {"axes": [0]}, note="over nothing", order=1)
    # Left out: a row of nothing but -inf, whose gradient is NaN in PyTorch and 0 here.
    golden.add("logsumexp", over_axes(torch.logsumexp), {"x": given([[-INFINITY, 1], [1e4, -1e4]])}, {"axes": [1]},
               note="masked or large", order=1)
    for name, function in {"variance": torch.var, "standard_deviation": torch.std}.items():
        for shape, axes in AXES[1:]:
            alone = axes.get("axes") == [1] and shape[1] == 1  # a deviation of 0, without second derivatives
            golden.add(name, over_axes(function), {"x": normal(*shape)}, {**axes, "correction": 0},
                       order=1 if alone and name == "standard_deviation" else 2)
        for shape, axes in [((5,), {}), ((2, 3), {"axes": [1], "keep": True}), ((2, 3, 2), {"axes": [0, 2]})]:
            golden.add(name, over_axes(function), {"x": normal(*shape)}, {**axes, "correction": 1})
        golden.add(name, over_axes(function), {"x": given([[3, 3, 3], [1, 2, NAN]])}, {"axes": [1], "correction": 0},
                   note="edges", order=1)


# Products

def matmul(a, b, transpose_a=False, transpose_b=False):
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


def linear(x, weight, bias=None):
    return F.linear(x, weight, bias)


def embedding(table, tokens):
    return F.embedding(tokens, table)


def products(golden):
    for batch in [(), (2,)]:
        for transpose_a in [False, True]:
            for transpose_b in [False, True]:
                golden.add("matmul", matmul, {"a": normal(*batch, *((4, 2) if transpose_a else (2, 4))),
                                              "b": normal(*batch, *((3, 4) if transpose_b else (4, 3)))},
                           {"transpose_a": transpose_a, "transpose_b": transpose_b})
    for a, b in [((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((2, 3, 4), (4,)), ((2, 3, 4), (4, 2)),
                 ((3, 4), (2, 4, 2)), ((2, 1, 3, 2), (3, 2, 4)), ((1, 1), (1, 1)), ((2, 1, 3, 2), (2, 1, 2, 4)),
                 ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((9, 5), (5, 17))]:
        golden.add("matmul", matmul, {"a": normal(*a), "b": normal(*b)})
    golden.add("matmul", matmul, {"a": given([[NAN, 1], [0, 2]]), "b": given([[0, 1], [INFINITY, 2]])},
               note="edges", order=1)
    for shape in [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4), (0, 4)]:
        golden.add("linear", linear, {"x": normal(*shape), "weight": normal(5, 4), "bias": normal(5)})
    golden.add("linear", linear, {"x": normal(3, 4), "weight": normal(5, 4)})
    for tokens in [*(random_integers("tokens", 5, shape) for shape in [(), (4,), (2, 3)]),
                   np.array([3, 3, 0, 3, 3], np.int32)]:
        golden.add("embedding", embedding, {"table": normal(5, 3)}, {"tokens": tokens})
    golden.add("embedding", embedding, {"table": normal(5, 3)}, {"tokens": np.zeros(0, np.int32)},
               order=1)  # PyTorch's second derivative fails on no tokens


def masked(golden):
    for shape, mask in [((3,), (3,)), ((2, 3), (2, 3)), ((2, 3, 4), (3, 4))]:
        golden.add("select", lambda x, mask: torch.where(mask != 0, x, 0.0), {"x": normal(*shape)},
                   {"mask": random_mask("select", mask)})
    for batch in [(), (2,), (2, 2)]:
        golden.add("sampled_matmul", lambda a, b, mask: torch.where(mask != 0, a @ b.mT, 0.0),
                   {"a": normal(*batch, 3, 2), "b": normal(*batch, 4, 2)}, {"mask": random_mask("sampled", (3, 4))})
        for transpose_a in [False, True]:
            golden.add("masked_matmul",
                       lambda a, b, mask, transpose_a: matmul(torch.where(mask != 0, a, 0.0), b, transpose_a),
                       {"a": normal(*batch, 3, 4), "b": normal(*batch, 3 if transpose_a else 4, 2)},
                       {"mask": random_mask("masked", (3, 4)), "transpose_a": transpose_a})


# Softmax and losses

def softmaxes(golden):
    for name, function in {"softmax": F.softmax, "log_softmax": F.log_softmax}.items():
        def call(x, axis=-1):
            return function(x, dim=axis)
        for shape in [(5,), (1,), (2, 3), (3, 1), (2, 3, 4), (2, 1, 2, 3), (0, 3)]:
            golden.add(name, call, {"x": normal(*shape)})
        for shape, axis in [((2, 3), 0), ((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 1, 3, 2), -2), ((3, 0), 0)]:
            golden.add(name, call, {"x": normal(*shape)}, {"axis": axis})
        golden.add(name, call, {"x": given([[1e4, -1e4, 1e4 - 1], [80, 80, 80]])}, note="large")
        golden.add(name, call, {"x": given([[-INFINITY, 1, 2], [-INFINITY, -INFINITY, 1]])}, note="masked", order=1)
        golden.add(name, call, {"x": given([[NAN, 1, 2], [INFINITY, 1, 2], [-INFINITY] * 3])}, note="edges", order=1)


IGNORED = -100


def cross_entropy(reduction):
    def call(logits, targets, class_weights=None, ignore_index=IGNORED, label_smoothing=0.0):
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long(), weight=class_weights,
                               ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)
        return loss.reshape(targets.shape) if reduction == "none" else loss
    return call


def losses(golden):
    weights = np.array([0.5, 2.0, 0.0, 1.25])
    for reduction in ["mean", "sum", "none"]:
        name, call = f"cross_entropy {reduction}", cross_entropy(reduction)
        for shape in [(4,), (5, 4), (2, 3, 4), (2, 1, 2, 4)]:
            targets = {"targets": random_integers(f"targets {shape}", 4, shape[:-1])}
            golden.add(name, call, {"logits": normal(*shape)}, targets)
        some = {"targets": np.array([1, IGNORED, 3, 0, IGNORED], np.int32)}
        for options in [{}, {"label_smoothing": 0.25}, {"class_weights": weights},
                        {"label_smoothing": 0.25, "class_weights": weights}]:
            golden.add(name, call, {"logits": normal(5, 4)}, {**some, **options}, note="some ignored")
        golden.add(name, call, {"logits": normal(3, 4)},
                   {"targets": np.array([1, 2, 1], np.int32), "ignore_index": 1, "label_smoothing": 0.125})
        golden.add(name, call, {"logits": normal(3, 1)}, {"targets": np.zeros(3, np.int32)}, note="one class")
        golden.add(name, call, {"logits": given([[1e4, 0, -1e4], [-1e4, 0, 0]])},
                   {"targets": np.array([1, 0], np.int32)}, note="large")
        golden.add(name, call, {"logits": given([[-INFINITY, 1, 2], [1, NAN, 0]])},
                   {"targets": np.array([1, 0], np.int32)}, note="edges", order=1)
    # A mean over nothing is NaN in PyTorch and 0 here, with zero gradients: a batch of padding shall not stop a run.
    for reduction in ["sum", "none"]:
        golden.add(f"cross_entropy {reduction}", cross_entropy(reduction), {"logits": normal(2, 3)},
                   {"targets": np.full(2, IGNORED, np.int32)}, note="all ignored")
        golden.add(f"cross_entropy {reduction}", cross_entropy(reduction), {"logits": normal(0, 3)},
                   {"targets": np.zeros(0, np.int32)})


# Attention

def attention(q, k, v, heads=1, causal=False, key_mask=None, mask=None, scale=None, key_heads=None):
    """[B, T, H] -> [B, T, H]; masks join, and the last query sees all keys if causal."""
    key_heads = key_heads or heads
    def split(x, heads):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    def split_keys(x):
        return split(x, key_heads).repeat_interleave(heads // key_heads, 1)
    (batch, queries, _), keys = q.shape, k.shape[1]
    seen = torch.ones(batch, heads, queries, keys, dtype=torch.bool)
    if causal:  # is_causal would align the first query with the first key
        seen = seen & torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    if key_mask is not None:
        seen = seen & (key_mask != 0)[:, None, None, :]
    if mask is not None:
        seen = seen & (mask[:, None] if mask.dim() == 3 else mask).bool()
    y = F.scaled_dot_product_attention(split(q, heads), split_keys(k), split_keys(v), attn_mask=seen, scale=scale)
    return y.transpose(1, 2).flatten(-2)


# Left out: a NaN in a key or value that no query sees. PyTorch multiplies it by 0, which is NaN; here masks select.
def attentions(golden):
    def inputs(queries=3, keys=3, width=4, value_width=4, key_width=None):
        return {"q": normal(2, queries, width), "k": normal(2, keys, key_width or width),
                "v": normal(2, keys, value_width)}
    padding = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    for heads in [1, 2, 4]:
        golden.add("attention", attention, inputs(), {"heads": heads})
    for sizes in [{"keys": 5}, {"queries": 1}, {"keys": 1}, {"value_width": 6}, {"queries": 4, "keys": 2, "width": 2}]:
        golden.add("attention", attention, inputs(**sizes), {"heads": 2})
    golden.add("attention", attention, inputs(), {"heads": 2, "scale": 0.7})
    for key_heads in [1, 2]:
        for causal in [False, True]:
            golden.add("attention", attention, inputs(width=8, key_width=2 * key_heads, value_width=3 * key_heads),
                       {"heads": 4, "key_heads": key_heads, "causal": causal})
    golden.add("attention", attention, inputs(width=8, key_width=4), {
        "heads": 4, "key_heads": 2, "mask": random_mask("grouped", (2, 4, 3, 3))})
    for keys in [3, 5]:
        golden.add("attention", attention, inputs(keys=keys), {"heads": 2, "causal": True})
    golden.add("attention", attention, inputs(), {"heads": 2, "key_mask": padding})
    golden.add("attention", attention, inputs(), {"heads": 2, "key_mask": padding, "causal": True},
               note="a row without a key")
    for shape in [(3, 3), (2, 3, 3), (2, 2, 3, 3)]:
        golden.add("attention", attention, inputs(), {"heads": 2, "mask": random_mask("attention", shape)})
    golden.add("attention", attention, inputs(), {
        "heads": 2, "causal": True, "key_mask": padding, "mask": random_mask("all", (2, 3, 3)), "scale": 0.5})
    empty_row = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], np.int32)
    golden.add("attention", attention, inputs(), {"heads": 2, "mask": empty_row}, note="a row without a key")
    for heads in [1, 2]:
        golden.add("causal_attention", lambda q, k, v, heads: attention(q, k, v, heads, causal=True), inputs(),
                   {"heads": heads})


def rotary(x, heads, base=10000.0, first_position=0):
    """As in Hugging Face's LLaMA: both halves of a head have the same angles, the second half comes in with a minus."""
    x = x.unflatten(-1, (heads, -1))
    half = x.shape[-1] // 2
    positions = torch.arange(first_position, first_position + x.shape[1], dtype=torch.float64)
    angles = torch.outer(positions, base ** (-torch.arange(half, dtype=torch.float64) / half)).repeat(1, 2)[:, None]
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * angles.cos() + turned * angles.sin()).flatten(-2)


def rotaries(golden):
    for shape, heads in [((2, 3, 8), 1), ((2, 3, 8), 2), ((1, 5, 4), 2), ((1, 1, 2), 1), ((2, 3, 34), 1), ((2, 0, 4), 1)]:
        golden.add("rotary", rotary, {"x": normal(*shape)}, {"heads": heads})
    for options in [{"base": 500.0}, {"first_position": 7}, {"base": 500000.0, "first_position": 100000}]:
        golden.add("rotary", rotary, {"x": normal(2, 3, 8)}, {"heads": 2, **options})


# Norms

def layer_norm(x, gamma=None, beta=None, eps=1e-5):
    if gamma is None and beta is not None:  # PyTorch's second derivative fails on a beta without a gamma
        return F.layer_norm(x, x.shape[-1:], eps=eps) + beta
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def rms_norm(x, gamma=None, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], gamma, eps)


ROWS = [(5,), (2, 5), (2, 3, 5), (2, 1, 2, 5), (0, 5)]


def norms(golden):
    for name, function, parameters in [("layer_norm", layer_norm, ["gamma", "beta"]),
                                       ("rms_norm", rms_norm, ["gamma"])]:
        everything = list(with_some(5, *parameters))[-1]
        for shape in ROWS:
            golden.add(name, function, {"x": normal(*shape), **everything})
        for some in with_some(5, *parameters):
            golden.add(name, function, {"x": normal(3, 5), **some})
        for eps in [0.0, 0.5]:
            golden.add(name, function, {"x": normal(3, 5), **everything}, {"eps": eps})
        for width in [1, 2]:  # a large eps, since with a small one nearly nothing is left of the gradient
            golden.add(name, function, {"x": normal(3, width), **list(with_some(width, *parameters))[-1]}, {"eps": 0.5})
        golden.add(name, function, {"x": zeros(2, 5), **everything}, note="zero rows")
        golden.add(name, function, {"x": given([[NAN, 1, 2, 3, 4], [1, 2, INFINITY, 3, 4], [1, 2, 3, 4, 5]])},
                   note="edges", order=1)


# Compositions, since PyTorch has no such operations. Left out: a zero row with an eps of 0, which is 0/0 in PyTorch and
# 0 here.

def scale_norm(x, g=None, eps=1e-5):
    y = x / torch.sqrt(x.square().sum(-1, keepdim=True) + eps)
    return y if g is None else g * y


def dynamic_tanh(x, alpha, gamma=None, beta=None):
    y = torch.tanh(alpha * x)
    y = y if gamma is None else gamma * y
    return y if beta is None else y + beta


def scale_norms(golden):
    for shape in ROWS:
        golden.add("scale_norm", scale_norm, {"x": normal(*shape), "g": positive()})
    golden.add("scale_norm", scale_norm, {"x": normal(3, 5)})
    golden.add("scale_norm", scale_norm, {"x": normal(3, 5), "g": positive(1)})
    for eps in [0.0, 0.5]:
        golden.add("scale_norm", scale_norm, {"x": normal(3, 5), "g": positive()}, {"eps": eps})
    golden.add("scale_norm", scale_norm, {"x": zeros(2, 5), "g": positive()}, note="zero rows")
    for shape in ROWS:
        golden.add("dynamic_tanh", dynamic_tanh,
                   {"x": normal(*shape), "alpha": positive(), "gamma": normal(5), "beta": normal(5)})
    for some in with_some(5, "gamma", "beta"):
        golden.add("dynamic_tanh", dynamic_tanh, {"x": normal(3, 5), "alpha": positive(1), **some})


# Norms over channels. PyTorch's second derivative fails on a beta without a gamma, so parameters are applied here.

def affine_by_channel(y, gamma, beta, channel_axis):
    shape = [1] * y.dim()
    shape[channel_axis] = -1
    y = y if gamma is None else y * gamma.reshape(shape)
    return y if beta is None else y + beta.reshape(shape)


def group_norm(x, groups, gamma=None, beta=None, eps=1e-5, channel_axis=-1):
    outer = x.shape[:channel_axis % x.dim()]  # all of these are batches
    y = F.group_norm(x.flatten(0, len(outer) - 1), groups, eps=eps).unflatten(0, outer)
    return affine_by_channel(y, gamma, beta, channel_axis)


def batch_norm(x, gamma=None, beta=None, eps=1e-5, channel_axis=-1, mask=None):
    rows = x.movedim(channel_axis, -1)
    seen = torch.ones(rows.shape[:-1], dtype=torch.bool) if mask is None else mask != 0
    normalized = F.batch_norm(rows[seen], None, None, gamma, training=True, eps=eps)
    normalized = normalized if beta is None else normalized + beta
    return torch.zeros_like(rows).index_put((seen,), normalized).movedim(-1, channel_axis)


def running_statistics(x, channel_axis):
    """The mean and the biased variance of each channel, from the running statistics of a first batch."""
    mean, variance = torch.zeros(x.shape[channel_axis]).double(), torch.ones(x.shape[channel_axis]).double()
    F.batch_norm(x.movedim(channel_axis, 1), mean, variance, training=True, momentum=1.0)
    count = x.numel() // x.shape[channel_axis]
    return mean, variance * ((count - 1) / count)


def batch_norm_evaluation(x, running_mean, running_variance, gamma=None, beta=None, eps=1e-5, channel_axis=-1):
    y = F.batch_norm(x.movedim(channel_axis, 1), running_mean, running_variance, eps=eps).movedim(1, channel_axis)
    return affine_by_channel(y, gamma, beta, channel_axis)


CHANNELS_FIRST = {"channel_axis": 1}
# Shapes with four channels.
CHANNELS = [((3, 4), {}), ((2, 3, 4), {}), ((3, 4), CHANNELS_FIRST), ((2, 4, 3), CHANNELS_FIRST),
            ((2, 4, 1, 3), CHANNELS_FIRST)]


def channel_norms(golden):
    both = {"gamma": normal(4), "beta": normal(4)}
    for shape, options in CHANNELS:
        golden.add("group_norm", group_norm, {"x": normal(*shape), **both}, {"groups": 2, "eps": 0.25, **options})
        golden.add("batch_norm", batch_norm, {"x": normal(*shape), **both}, options)
    for groups in [1, 4]:
        golden.add("group_norm", group_norm, {"x": normal(2, 4, 3), **both}, {"groups": groups, **CHANNELS_FIRST})
    for some in with_some(4, "gamma", "beta"):
        x = {"x": normal(3, 4), **some}
        golden.add("group_norm", group_norm, x, {"groups": 2, "eps": 0.5})
        golden.add("batch_norm", batch_norm, x, {"eps": 0.5})
        golden.add("batch_norm_evaluation", batch_norm_evaluation, x, {
            "running_mean": np.array([0.5, -1, 0, 2]), "running_variance": np.array([1, 0.25, 0, 3]), "eps": 0.5})
    for shape, options in [((2, 4, 3), CHANNELS_FIRST), ((2, 3, 4), {}), ((0, 4), {})]:
        golden.add("batch_norm_evaluation", batch_norm_evaluation, {"x": normal(*shape), **both}, {
            "running_mean": np.array([0.5, -1, 0, 2]), "running_variance": np.array([1, 0.25, 2, 3]), **options})
    for shape, options in [((2, 3, 4), {}), ((2, 4, 3), CHANNELS_FIRST)]:
        golden.add("batch_norm", batch_norm, {"x": normal(*shape), **both},
                   {"mask": np.array([[1, 1, 0], [1, 0, 1]], np.int32), **options})
        for i, name in enumerate(["mean", "variance"]):
            golden.add(f"batch_norm's {name}", lambda x, channel_axis: running_statistics(x, channel_axis)[i],
                       {"x": normal(*shape)}, {"channel_axis": -1, **options}, order=0)


FAMILIES = [elementwise, powers, arithmetic, selections, shapes, parts, indexing, reductions, products, masked,
            softmaxes, losses, attentions, rotaries, norms, scale_norms, channel_norms]
