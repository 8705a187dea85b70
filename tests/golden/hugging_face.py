#!/usr/bin/env python3
"""Golden models of Hugging Face's transformers: hugging_face/KIND/, as save_pretrained writes them, with what they say.

    pip install torch safetensors transformers
    python tests/golden/hugging_face.py

Only who adds a kind of model runs this; the tests read the committed files. A second run writes the same bytes.

Beside config.json and model.safetensors lies expected.safetensors:

    tokens         [B, T]
    mask           [B, T], 1 where a token counts; for kinds with padding
    hidden.0       [B, T, dim], x_0, what enters the blocks
    hidden.i       x_i, what block i gives, before any final norm
    final          the last hidden state, after the final norm
    logits         [B, T, vocabulary]; not for a model without a head

all in float64, and "float32.logits", "float32.final" as the library computes them in float32.
"""

import shutil
import tempfile
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).parent / "hugging_face"
VOCABULARY, CONTEXT = 40, 12


def bert(**changes):
    return transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                                   intermediate_size=24, max_position_embeddings=CONTEXT, layer_norm_eps=0.01,
                                   **changes)


def gpt2():
    return transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=CONTEXT,
                                   layer_norm_epsilon=0.01, bos_token_id=0, eos_token_id=0)


def decoder(kind, base, **changes):
    return kind(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, intermediate_size=24, max_position_embeddings=CONTEXT, rms_norm_eps=0.01,
                rope_parameters={"rope_theta": base, "rope_type": "default"}, bos_token_id=0, eos_token_id=0, **changes)


# eps is far from any default, and large enough that each would show.
MODELS = {
    "bert": lambda: transformers.BertForMaskedLM(bert()),
    "minilm": lambda: transformers.BertModel(bert(hidden_act="relu")),  # no head, but a pooler
    "gpt2": lambda: transformers.GPT2LMHeadModel(gpt2()),
    "llama": lambda: transformers.LlamaForCausalLM(
        decoder(transformers.LlamaConfig, 100.0, tie_word_embeddings=False)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(
        decoder(transformers.Qwen2Config, 50.0, tie_word_embeddings=True)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(
        decoder(transformers.Qwen3Config, 20.0, tie_word_embeddings=False, head_dim=8)),
}
PADDED = ["bert", "minilm"]


def randomize(model, generator):
    """Gains around 1 and all else around 0, of a size at which every part of the model shows."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1.0 + 0.3 * drawn if is_gain else 0.4 * drawn)


# transformers computes RMSNorm and the angles of rotary positions in float32 whatever the model's type is. In these
# places the same formulas stand in the model's type.

def rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rotary_angles(self, x, position_ids):
    exponents = torch.arange(len(self.inv_freq)).double() / len(self.inv_freq)
    frequencies = self.config.rope_parameters["rope_theta"] ** -exponents
    angles = torch.cat(2 * [position_ids[..., None] * frequencies], dim=-1)
    return angles.cos(), angles.sin()


def in_float64(model):
    model = model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = rms_norm.__get__(module)
        if type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = rotary_angles.__get__(module)
    return model


def blocks_of(model):
    base = model.base_model
    if hasattr(base, "encoder"):
        return base.encoder.layer
    return base.h if hasattr(base, "h") else base.layers


def run(model, tokens, mask):
    """What goes into the first block and comes out of each, and what the whole model says."""
    hidden, final = [], []
    kept = lambda place: lambda _, __, output: place.append(output[0] if isinstance(output, tuple) else output)
    blocks = blocks_of(model)
    hooks = [blocks[0].register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0]))]
    hooks += [block.register_forward_hook(kept(hidden)) for block in blocks]
    hooks += [model.base_model.register_forward_hook(lambda _, __, output: final.append(output.last_hidden_state))]
    with torch.no_grad():
        result = model(input_ids=tokens, attention_mask=mask)
    for hook in hooks:
        hook.remove()
    tensors = {f"hidden.{i}": x for i, x in enumerate(hidden)} | {"final": final[0]}
    return tensors | ({"logits": result.logits} if "logits" in result else {})


def make(kind):
    generator = torch.Generator().manual_seed(zlib.crc32(kind.encode()))
    model = MODELS[kind]().eval()
    randomize(model, generator)
    model.set_attn_implementation("sdpa")
    tokens = torch.randint(VOCABULARY, (2, 9), generator=generator)
    mask = torch.ones_like(tokens)
    if kind in PADDED:
        mask[1, 6:] = 0

    folder = FOLDER / kind
    with tempfile.TemporaryDirectory() as written:
        model.save_pretrained(written)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ["config.json", "model.safetensors"]:
            shutil.copyfile(Path(written) / name, folder / name)

    expected = {"tokens": tokens.int()}
    if kind in PADDED:
        expected["mask"] = mask.int()
    single = run(model, tokens, mask)
    expected |= {f"float32.{name}": single[name] for name in ["final", "logits"] if name in single}
    expected |= run(in_float64(model), tokens, mask)
    expected = {name: x.contiguous().clone() for name, x in expected.items()}
    metadata = {"made_by": f"tests/golden/hugging_face.py with transformers {transformers.__version__}, "
                           f"PyTorch {torch.__version__}"}
    save_file(expected, folder / "expected.safetensors", metadata)
    apart = {name: (expected[name] - expected[f"float32.{name}"]).abs().max().item() for name in ["final", "logits"]
             if name in expected}
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    print(f"{kind}: {sizes}; float32 from float64: {apart}")


def main():
    torch.set_num_threads(1)  # sums in one order
    for kind in MODELS:
        make(kind)


if __name__ == "__main__":
    main()
