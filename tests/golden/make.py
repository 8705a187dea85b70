#!/usr/bin/env python3
"""Golden values from PyTorch, in float64: operations.safetensors and blocks.safetensors, written beside this script.

    pip install torch numpy safetensors
    python tests/golden/make.py

Only who adds an operation runs this; the tests read the committed files. A second run writes the same bytes.

An entry of operations.safetensors is one call of an operation, "<operation>/<shapes, options, note>", and has

    in.x        an input x; float32 numbers, so that a test in float32 can start from the same ones
    option.axes what has no gradient: axes, sizes, eps, masks, indices, targets
    y           the output
    d.y         a random cotangent
    d.x         the gradient of <y, d.y> by x
    dot.x       a random tangent of x
    dot.y       the derivative of y along all tangents, which is that of s = sum of <d.x, dot.x> over the inputs by d.y
    dd.x        the derivative of s by x: a second-order value

Entries at an edge (NaN, infinity, a tie, a zero vector) have the output and the gradients, and the rest where PyTorch
and jnorm mean the same by it. Comments below name the edges where they don't.
"""

import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).parent
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
    return np.random.default_rng(zlib.crc32(name.encode())).integers(0, below, shape).astype(np.int32)


def random_mask(name, shape):
    return random_integers(name, 4, shape).clip(max=1)  # three of four are 1


def as_stored(option):
    """Integers and truth values as int32, others as float64."""
    array = np.asarray(option)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int32)


def size_of(array):
    return str(list(array.shape)).replace(" ", "")


def described(inputs, options, note):
    """What tells an entry from the operation's others: "x [2,3], gamma [3], eps 0.5"."""
    parts = [f"{name} {size_of(x)}" for name, x in inputs.items()]
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
            self.keep(f"in.{name}", x)
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
        self.keep("d.y", u)
        self.keep_each("d", xs, gradients)
        if order == 1:
            return
        vs = [as_float32_numbers(rng.standard_normal(tuple(x.shape))) for x in xs.values()]
        s = sum((gradient * v).sum() for gradient, v in zip(gradients, vs))
        *second, output_tangent = derivatives(s, [*xs.values(), u])
        self.keep_each("dot", xs, vs)
        self.keep("dot.y", output_tangent)
        self.keep_each("dd", xs, second)

    def keep(self, name, value):
        array = value.numpy(force=True) if isinstance(value, torch.Tensor) else value
        self.tensors[f"{self.entry}/{name}"] = array.copy(order="C")

    def keep_each(self, kind, names, values):
        for name, value in zip(names, values):
            self.keep(f"{kind}.{name}", value)


def as_argument(option):
    return torch.from_numpy(option) if isinstance(option, np.ndarray) else option


golden = Golden()


# Elementwise

SHAPES = [(), (19,), (2, 1, 3, 2), (0, 3)]


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def affine(x, scale, shift):
    return scale * x + shift


UNARY = {"negate": torch.neg, "exp": torch.exp, "square": torch.square, "tanh": torch.tanh, "erf": torch.erf,
         "abs": torch.abs, "sign": torch.sign, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh}
UNARY_OF_POSITIVE = {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal}


def of_x(function):
    return lambda x: function(x)


EDGES = [NAN, INFINITY, -INFINITY, 0.0, -0.0]
# What differs here on purpose is left out. A NaN stays one: PyTorch's sign(NaN) is 0, and relu passes the cotangent of
# a NaN on. GELU at infinity is its limit: PyTorch's gelu(-inf) is -inf * 0.
EDGES_OF = {"abs": EDGES[1:], "sign": EDGES[1:], "relu": EDGES[1:], "gelu": [NAN, 0.0], "gelu_tanh": [NAN, 0.0]}


def elementwise():
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


BINARY = {"add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "divide": torch.divide}
PAIRS = [((), ()), ((19,), (19,)), ((2, 3), ()), ((2, 1), (1, 3)), ((3,), (2, 1, 3)), ((2, 1, 3, 1), (4, 1, 2)),
         ((0, 3), (3,))]
EDGE_PAIRS = np.array([(a, b) for a in [NAN, INFINITY, -INFINITY, 0.0, 1.5] for b in [NAN, INFINITY, 0.0, -2.0]]).T


def arithmetic():
    for name, function in BINARY.items():
        for a, b in PAIRS:
            golden.add(name, lambda a, b: function(a, b), {"a": normal(*a), "b": positive(*b)})
        golden.add(name, lambda a, b: function(a, b), {"a": given(EDGE_PAIRS[0]), "b": given(EDGE_PAIRS[1])},
                   note="edges", order=1)


# Shapes

def shapes():
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


# Reductions

AXES = [((), {}), ((5,), {}), ((2, 3), {}), ((5,), {"axes": [0]}), ((2, 3), {"axes": [0]}), ((2, 3), {"axes": [-1]}),
        ((2, 3), {"axes": [1], "keep": True}), ((2, 3, 4), {"axes": [0, 2]}),
        ((2, 3, 4), {"axes": [0, -1], "keep": True}), ((2, 1, 3, 2), {"axes": [1]}), ((2, 1, 3, 2), {"axes": [1, 2, 3]})]


def over_axes(function):
    """A reduction of PyTorch's, over all axes if none is named."""
    def reduce(x, axes=None, keep=False, **options):
        return function(x, dim=tuple(range(x.dim())) if axes is None else tuple(axes), keepdim=keep, **options)
    return reduce


def reductions():
    for name, function in {"sum": torch.sum, "mean": torch.mean}.items():
        for shape, axes in [*AXES, ((0, 3), {"axes": [1]})]:
            golden.add(name, over_axes(function), {"x": normal(*shape)}, axes)
        golden.add(name, over_axes(function), {"x": given([[NAN, 1], [INFINITY, -INFINITY], [INFINITY, 1]])},
                   {"axes": [1]}, note="edges", order=1)
    golden.add("sum", over_axes(torch.sum), {"x": normal(0, 3)}, {"axes": [0]})
    golden.add("mean", over_axes(torch.mean), {"x": normal(0, 3)}, {"axes": [0]}, note="0/0", order=1)


# Products

def matmul(a, b, transpose_a=False, transpose_b=False):
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


def linear(x, weight, bias=None):
    return F.linear(x, weight, bias)


def embedding(table, tokens):
    return F.embedding(tokens, table)


def products():
    for batch in [(), (2,)]:
        for transpose_a in [False, True]:
            for transpose_b in [False, True]:
                golden.add("matmul", matmul, {"a": normal(*batch, *((4, 2) if transpose_a else (2, 4))),
                                              "b": normal(*batch, *((3, 4) if transpose_b else (4, 3)))},
                           {"transpose_a": transpose_a, "transpose_b": transpose_b})
    for a, b in [((1, 1), (1, 1)), ((2, 1, 3, 2), (2, 1, 2, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((17, 9), (9, 10))]:
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


def masked():
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

def softmaxes():
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


def losses():
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

def attention(q, k, v, heads=1, causal=False, key_mask=None, mask=None, scale=None):
    """[B, T, H] -> [B, T, H]; masks join, and the last query sees all keys if causal."""
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    (batch, queries, _), keys = q.shape, k.shape[1]
    seen = torch.ones(batch, heads, queries, keys, dtype=torch.bool)
    if causal:  # is_causal would align the first query with the first key
        seen = seen & torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    if key_mask is not None:
        seen = seen & (key_mask != 0)[:, None, None, :]
    if mask is not None:
        seen = seen & (mask[:, None] if mask.dim() == 3 else mask).bool()
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=seen, scale=scale)
    return y.transpose(1, 2).flatten(-2)


# Left out: a NaN in a key or value that no query sees. PyTorch multiplies it by 0, which is NaN; here masks select.
def attentions():
    def inputs(queries=3, keys=3, width=4, value_width=4):
        return {"q": normal(2, queries, width), "k": normal(2, keys, width), "v": normal(2, keys, value_width)}
    padding = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    for heads in [1, 2, 4]:
        golden.add("attention", attention, inputs(), {"heads": heads})
    for sizes in [{"keys": 5}, {"queries": 1}, {"keys": 1}, {"value_width": 6}, {"queries": 4, "keys": 2, "width": 2}]:
        golden.add("attention", attention, inputs(**sizes), {"heads": 2})
    golden.add("attention", attention, inputs(), {"heads": 2, "scale": 0.7})
    for keys in [3, 5]:
        golden.add("attention", attention, inputs(keys=keys), {"heads": 2, "causal": True})
    golden.add("attention", attention, inputs(), {"heads": 2, "key_mask": padding})
    golden.add("attention", attention, inputs(), {"heads": 2, "key_mask": padding, "causal": True}, note="a row without a key")
    for shape in [(3, 3), (2, 3, 3), (2, 2, 3, 3)]:
        golden.add("attention", attention, inputs(), {"heads": 2, "mask": random_mask("attention", shape)})
    golden.add("attention", attention, inputs(), {
        "heads": 2, "causal": True, "key_mask": padding, "mask": random_mask("all", (2, 3, 3)), "scale": 0.5})
    empty_row = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], np.int32)
    golden.add("attention", attention, inputs(), {"heads": 2, "mask": empty_row}, note="a row without a key")
    for heads in [1, 2]:
        golden.add("causal_attention", lambda q, k, v, heads: attention(q, k, v, heads, causal=True), inputs(),
                   {"heads": heads})


# Norms

def layer_norm(x, gamma=None, beta=None, eps=1e-5):
    if gamma is None and beta is not None:  # PyTorch's second derivative fails on a beta without a gamma
        return F.layer_norm(x, x.shape[-1:], eps=eps) + beta
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def rms_norm(x, gamma=None, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], gamma, eps)


ROWS = [(5,), (2, 5), (2, 3, 5), (2, 1, 2, 5), (0, 5)]


def norms():
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


# A Transformer block of PyTorch's own, under the names that the parameters have in jnorm.

DIM, HEADS, FFN = 8, 2, 12


def torch_parameters(layer):
    """jnorm's name -> PyTorch's tensor; the three maps of attention are one tensor in PyTorch."""
    split = {"query": slice(0, DIM), "key": slice(DIM, 2 * DIM), "value": slice(2 * DIM, 3 * DIM)}
    for part, rows in split.items():
        yield f"attention.branch.{part}.weight", layer.self_attn.in_proj_weight, rows
        yield f"attention.branch.{part}.bias", layer.self_attn.in_proj_bias, rows
    whole = slice(None)
    for name, module in [("attention.branch.output", layer.self_attn.out_proj), ("ffn.branch.up", layer.linear1),
                         ("ffn.branch.down", layer.linear2)]:
        yield f"{name}.weight", module.weight, whole
        yield f"{name}.bias", module.bias, whole
    for name, module in [("attention.norm", layer.norm1), ("ffn.norm", layer.norm2)]:
        yield f"{name}.gamma", module.weight, whole
        yield f"{name}.beta", module.bias, whole


def block(placement):
    """Causal attention, GELU feed-forward and LayerNorm; weights, x, output, and the gradients of all."""
    rng = np.random.default_rng(zlib.crc32(placement.encode()))
    layer = torch.nn.TransformerEncoderLayer(DIM, HEADS, FFN, dropout=0.0, activation=F.gelu, batch_first=True,
                                             norm_first=placement == "pre", dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(as_float32_numbers(0.5 * rng.standard_normal(tuple(parameter.shape))))
    x = as_float32_numbers(rng.standard_normal((2, 5, DIM))).requires_grad_()
    u = as_float32_numbers(rng.standard_normal((2, 5, DIM)))
    unseen = torch.ones(5, 5, dtype=torch.bool).triu(1)
    y = layer(x, src_mask=unseen)
    (y * u).sum().backward()
    tensors = {"input": x, "output": y, "cotangent": u, "gradient": x.grad}
    for name, tensor, rows in torch_parameters(layer):
        tensors[f"parameter.{name}"] = tensor[rows]
        tensors[f"gradient.{name}"] = tensor.grad[rows]
    return {f"{placement}/{name}": tensor.detach().numpy().copy(order="C") for name, tensor in tensors.items()}


def save(name, tensors):
    # One key, since a map of several has no fixed order in the file.
    metadata = {"made_by": f"tests/golden/make.py with PyTorch {torch.__version__}, NumPy {np.__version__}"}
    save_file(tensors, HERE / name, metadata)
    print(f"{name}: {len(tensors)} tensors, {(HERE / name).stat().st_size} bytes")


def main():
    torch.set_num_threads(1)  # sums in one order
    elementwise()
    arithmetic()
    shapes()
    reductions()
    products()
    masked()
    softmaxes()
    losses()
    attentions()
    norms()
    save("operations.safetensors", golden.tensors)
    save("blocks.safetensors", {**block("pre"), **block("post")})


if __name__ == "__main__":
    main()
