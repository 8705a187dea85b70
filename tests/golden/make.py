#!/usr/bin/env python3
"""Golden values from PyTorch, in float64: operations.safetensors and blocks.safetensors, written beside this script.

    pip install torch numpy safetensors
    python tests/golden/make.py

Only who adds an operation runs this; the tests read the committed files. A second run writes the same bytes.

recording.py says what an entry holds, operations.py has the entries.
"""

import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

import operations
from recording import Golden, as_float32_numbers

HERE = Path(__file__).parent


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
    golden = Golden()
    for add_family in operations.FAMILIES:
        add_family(golden)
    save("operations.safetensors", golden.tensors)
    save("blocks.safetensors", {**block("pre"), **block("post")})


if __name__ == "__main__":
    main()
