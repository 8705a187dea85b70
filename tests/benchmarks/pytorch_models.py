"""The architectures in PyTorch, as its users write them: fused attention, norms and GELU of its own, eager.

MODELS has for each a function (context, width, layers) -> module. Heads are 16 columns wide.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

HEAD = 16


@dataclass
class Style:
    post: bool = False
    norm: type = nn.LayerNorm
    eps: float = 1e-5
    activation: object = F.relu
    gated: bool = False
    bias: bool = True
    group: int = 1  # query heads that share a head of keys and values
    rotary_base: float = 0.0
    qk_norm: bool = False


def rotation(length, base):
    frequencies = base ** (-torch.arange(0, HEAD, 2) / HEAD)
    angles = torch.outer(torch.arange(length), frequencies)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Attention(nn.Module):
    def __init__(self, style, width, context, causal):
        super().__init__()
        self.style, self.causal = style, causal
        keys = width // style.group
        self.query = nn.Linear(width, width, bias=style.bias)
        self.key = nn.Linear(width, keys, bias=style.bias)
        self.value = nn.Linear(width, keys, bias=style.bias)
        self.output = nn.Linear(width, width, bias=style.bias)
        if style.qk_norm:
            self.query_norm, self.key_norm = (style.norm(HEAD, eps=style.eps) for _ in range(2))
        if style.rotary_base:
            for name, table in zip(("cos", "sin"), rotation(context, style.rotary_base)):
                self.register_buffer(name, table)

    def forward(self, x, memory=None):
        def heads(y):
            return y.view(*y.shape[:2], -1, HEAD).transpose(1, 2)

        source = x if memory is None else memory
        q, k, v = heads(self.query(x)), heads(self.key(source)), heads(self.value(source))
        if self.style.qk_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        if self.style.rotary_base:
            q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.style.group > 1)
        return self.output(y.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, style, width):
        super().__init__()
        self.style = style
        inner = (8 * width + 2) // 3 + 7 & ~7 if style.gated else 4 * width
        self.up = nn.Linear(width, inner, bias=style.bias)
        self.down = nn.Linear(inner, width, bias=style.bias)
        if style.gated:
            self.gate = nn.Linear(width, inner, bias=style.bias)

    def forward(self, x):
        if self.style.gated:
            return self.down(self.style.activation(self.gate(x)) * self.up(x))
        return self.down(self.style.activation(self.up(x)))


class Sublayer(nn.Module):
    def __init__(self, style, width, branch):
        super().__init__()
        self.post, self.branch, self.norm = style.post, branch, style.norm(width, eps=style.eps)

    def forward(self, x, *memory):
        if self.post:
            return self.norm(x + self.branch(x, *memory))
        return x + self.branch(self.norm(x), *memory)


class Block(nn.Module):
    def __init__(self, style, width, context, causal, cross=False):
        super().__init__()
        self.attention = Sublayer(style, width, Attention(style, width, context, causal))
        self.cross = Sublayer(style, width, Attention(style, width, context, False)) if cross else None
        self.ffn = Sublayer(style, width, FeedForward(style, width))

    def forward(self, x, memory=None):
        x = self.attention(x)
        if self.cross is not None:
            x = self.cross(x, memory)
        return self.ffn(x)


class Model(nn.Module):
    masked = False
    reads_source = False

    def __init__(self, style, context, width, layers, causal=True, learned=True, tied=True):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.positions = nn.Embedding(context, width) if learned else None
        self.blocks = nn.ModuleList(Block(style, width, context, causal) for _ in range(layers))
        self.norm = nn.Identity() if style.post else style.norm(width, eps=style.eps)
        self.head = nn.Linear(width, 256, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def embed(self, tokens):
        x = self.tokens(tokens)
        return x if self.positions is None else x + self.positions(torch.arange(tokens.shape[1]))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Bert(Model):
    masked = True

    def __init__(self, context, width, layers):
        super().__init__(Style(post=True, activation=F.gelu, eps=1e-12), context, width, layers, causal=False)
        self.embedding_norm, self.head_norm = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        self.transform = nn.Linear(width, width)
        self.head_bias = nn.Parameter(torch.zeros(256))

    def forward(self, tokens):
        x = self.embedding_norm(self.embed(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(self.head_norm(F.gelu(self.transform(x)))) + self.head_bias


class Vanilla(Model):
    reads_source = True

    def __init__(self, context, width, layers):
        style = Style(post=True)
        super().__init__(style, context, width, layers, learned=False)
        self.scale = math.sqrt(width)
        self.encoder = nn.ModuleList(Block(style, width, context, causal=False) for _ in range(layers))
        self.blocks = nn.ModuleList(Block(style, width, context, causal=True, cross=True) for _ in range(layers))
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("sinusoids", torch.stack((angles.sin(), angles.cos()), -1).reshape(context, width))

    def embed(self, tokens):
        return self.scale * self.tokens(tokens) + self.sinusoids

    def forward(self, tokens, source):
        memory, x = self.embed(source), self.embed(tokens)
        for block in self.encoder:
            memory = block(memory)
        for block in self.blocks:
            x = block(x, memory)
        return self.head(x)


LLAMA = dict(norm=nn.RMSNorm, activation=F.silu, gated=True, bias=False, group=2)

MODELS = {
    "vanilla": Vanilla,
    "bert": Bert,
    "gpt2": lambda *sizes: Model(Style(activation=lambda x: F.gelu(x, approximate="tanh")), *sizes),
    "llama": lambda *sizes: Model(Style(rotary_base=1e4, **LLAMA), *sizes, learned=False, tied=False),
    "qwen": lambda *sizes: Model(Style(rotary_base=1e6, eps=1e-6, qk_norm=True, **LLAMA), *sizes, learned=False),
}
