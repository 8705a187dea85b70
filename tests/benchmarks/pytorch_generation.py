"""Generation with a cache of keys and values in eager PyTorch, written by hand: a decoder like GPT-2, one like LLaMA."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 256


class Cache:
    """Keys and values of one layer, with room for the whole context."""

    def __init__(self, heads, room, head_width):
        self.keys = torch.zeros(1, heads, room, head_width)
        self.values = torch.zeros(1, heads, room, head_width)

    def append(self, first, k, v):
        end = first + k.shape[2]
        self.keys[:, :, first:end] = k
        self.values[:, :, first:end] = v
        return self.keys[:, :, :end], self.values[:, :, :end]


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads, bias):
        super().__init__()
        self.heads, self.key_heads, self.head_width = heads, key_heads, width // heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, key_heads * self.head_width, bias=bias)
        self.value = nn.Linear(width, key_heads * self.head_width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, first, cache, angles):
        length = x.shape[1]

        def split(y, heads):
            return y.view(1, length, heads, self.head_width).transpose(1, 2)

        q, k, v = split(self.query(x), self.heads), split(self.key(x), self.key_heads), split(self.value(x), self.key_heads)
        if angles is not None:
            q, k = rotated(q, first, angles), rotated(k, first, angles)
        k, v = cache.append(first, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=self.heads != self.key_heads)
        return self.output(y.transpose(1, 2).reshape(1, length, -1))


def rotated(x, first, angles):
    cosines, sines = (table[first:first + x.shape[2]] for table in angles)
    a, b = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-b, a), dim=-1) * sines


def rotary_table(room, head_width, base=10000.0):
    frequencies = base ** (-torch.arange(0, head_width, 2) / head_width)
    angles = torch.outer(torch.arange(room).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, heads, bias=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, first, cache, angles):
        x = x + self.attention(self.norm1(x), first, cache, angles)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        ffn = (8 * width // 3 + 7) // 8 * 8
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, heads // 2, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, first, cache, angles):
        x = x + self.attention(self.norm1(x), first, cache, angles)
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Decoder(nn.Module):
    def __init__(self, kind, room, width, layers):
        super().__init__()
        heads = width // 16
        llama = kind == "llama"
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = None if llama else nn.Embedding(room, width)
        self.blocks = nn.ModuleList((LlamaBlock if llama else GptBlock)(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5) if llama else nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if not llama:
            self.head.weight = self.tokens.weight
        self.angles = rotary_table(room, width // heads) if llama else None
        self.caches = [Cache(heads // 2 if llama else heads, room, width // heads) for _ in range(layers)]

    def forward(self, tokens, first):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[first:first + tokens.shape[1]]
        for block, cache in zip(self.blocks, self.caches):
            x = block(x, first, cache, self.angles)
        return self.head(self.norm(x[:, -1]))


def next_token(kind, length, width, layers):
    """A step reads one token after `length` others and takes the most likely next one."""
    model = Decoder(kind, length + 1, width, layers).eval()
    with torch.inference_mode():
        model(torch.randint(VOCABULARY, (1, length)), 0)
    token = 0

    def step():
        nonlocal token
        with torch.inference_mode():
            token = model(torch.tensor([[token]]), length).argmax().item()

    return step


def next_token_gpt2(*sizes):
    return next_token("gpt2", *sizes)


def next_token_llama(*sizes):
    return next_token("llama", *sizes)
