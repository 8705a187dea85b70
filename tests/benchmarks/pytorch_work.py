"""The benchmarks' work in eager PyTorch, named as in jnorm_benchmarks. Prints one JSON object: seconds by name."""

import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import pytorch_models
from pytorch_generation import next_token_gpt2, next_token_llama
from timing import seconds


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        n = self.norm1(x)

        def split(y):
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        y = F.scaled_dot_product_attention(split(self.query(n)), split(self.key(n)), split(self.value(n)), is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.relu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, context, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, width // 16) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def step_of(model, tokens, targets, *source):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens, *source).view(-1, 256), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def training_step(batch, context, width, layers):
    tokens, targets = torch.randint(256, (2, batch, context))
    return step_of(Model(context, width, layers), tokens, targets)


def architecture_step(make):
    def work(batch, context, width, layers):
        tokens, targets, source = torch.randint(256, (3, batch, context))
        model = make(context, width, layers)
        if model.masked:  # every seventh token, as in jnorm_benchmarks
            targets.view(-1)[torch.arange(targets.numel()) % 7 != 0] = -100
        return step_of(model, tokens, targets, *([source] if model.reads_source else []))

    return work


def layer_norm_both_ways(rows, width):
    x = torch.randn(rows, width, requires_grad=True)
    gamma = torch.ones(width, requires_grad=True)
    beta = torch.zeros(width, requires_grad=True)
    dy = torch.randn(rows, width)

    def step():
        x.grad = gamma.grad = beta.grad = None
        F.layer_norm(x, (width,), gamma, beta).backward(dy)

    return step


def multiplication_chain(length):
    one = torch.ones(4)

    def step():
        x = one.clone().requires_grad_()
        y = x
        for _ in range(length):
            y = y * x
        y.sum().backward()

    return step


def block_jacobian(tokens, width, heads):
    block = Block(width, heads).double()
    x = torch.randn(tokens, width, dtype=torch.float64)
    jacobian = torch.func.jacrev(lambda x: block(x[None])[0])

    def step():
        # The derivative of the CPU's other kernel has no batching rule: it runs one cotangent at a time.
        with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            jacobian(x)

    return step


def main():
    work = {"training_step": training_step, "layer_norm_both_ways": layer_norm_both_ways,
            "multiplication_chain": multiplication_chain, "fresh_tape": multiplication_chain,
            "block_jacobian": block_jacobian, "next_token_gpt2": next_token_gpt2,
            "next_token_llama": next_token_llama}
    work |= {f"{name}_training_step": architecture_step(make) for name, make in pytorch_models.MODELS.items()}
    results = {}
    for name in sys.argv[1:]:
        function, *arguments = name.split("/")
        *sizes, threads = map(int, arguments)
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        results[name] = seconds(work[function](*sizes))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
