"""The benchmarks' work in JAX under jit, named as in jnorm_benchmarks. Prints one JSON object: seconds by name.

All names must have the same number of threads, the last of a name's arguments: XLA takes as many as it has cores.
"""

import json
import os
import sys

THREADS = int(sys.argv[1].split("/")[-1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import jax
import jax.numpy as jnp

from timing import seconds

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def random_weights(width):
    """The block's weights, [out, in], and biases, by the names of jnorm's parameters."""
    keys = iter(jax.random.split(jax.random.key(1), 6))
    sizes = {"attention.branch.query": (width, width), "attention.branch.key": (width, width),
             "attention.branch.value": (width, width), "attention.branch.output": (width, width),
             "ffn.branch.up": (4 * width, width), "ffn.branch.down": (width, 4 * width)}
    weights = {}
    for name, (out, into) in sizes.items():
        weights[f"{name}.weight"] = jax.random.normal(next(keys), (out, into)) * (2 / (out + into)) ** 0.5
        weights[f"{name}.bias"] = jnp.zeros(out)
    for sublayer in ("attention", "ffn"):
        weights[f"{sublayer}.norm.gamma"] = jnp.ones(width)
        weights[f"{sublayer}.norm.beta"] = jnp.zeros(width)
    return weights


def layer_norm(x, weights, name):
    centred = x - x.mean(-1, keepdims=True)
    rstd = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * rstd * weights[f"{name}.gamma"] + weights[f"{name}.beta"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def block(weights, x, heads):
    """A Pre-Norm block on x [T, H], with causal attention."""
    tokens, width = x.shape

    def split(y):
        return y.reshape(tokens, heads, width // heads).transpose(1, 0, 2)

    n = layer_norm(x, weights, "attention.norm")
    q, k, v = (split(linear(n, weights, f"attention.branch.{name}")) for name in ("query", "key", "value"))
    scores = q @ k.transpose(0, 2, 1) / (width // heads) ** 0.5
    p = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -jnp.inf))
    x = x + linear((p @ v).transpose(1, 0, 2).reshape(tokens, width), weights, "attention.branch.output")
    n = layer_norm(x, weights, "ffn.norm")
    return x + linear(jax.nn.relu(linear(n, weights, "ffn.branch.up")), weights, "ffn.branch.down")


def block_jacobian(tokens, width, heads):
    weights = random_weights(width)
    x = jax.random.normal(jax.random.key(2), (tokens, width))
    jacobian = jax.jit(jax.jacrev(lambda x: block(weights, x, heads)))
    return lambda: jacobian(x).block_until_ready()


WORK = {"block_jacobian": block_jacobian}


def main():
    results = {}
    for name in sys.argv[1:]:
        function, *arguments = name.split("/")
        results[name] = seconds(WORK[function](*map(int, arguments[:-1])))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
