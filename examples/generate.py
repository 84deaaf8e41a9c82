"""Write the example graphs: ``python examples/generate.py`` writes all, ``… bert_layer --seq 64`` one with other sizes.

Each is built by the Python builder. Weights are parameters without values; ``rlx-run`` makes random ones.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.convolution import ConvOp
from rlx_dialect.xdsl_compat import print_module


def linear(g: GraphBuilder, name: str, x: Value, width: int, *, bias: bool = True) -> Value:
    """x · weight [+ bias]: [..., K] -> [..., width]."""
    product = x @ g.param(f"{name}.weight", (x.shape[-1], width))
    return product + g.param(f"{name}.bias", (width,)) if bias else product


def layer_norm(g: GraphBuilder, name: str, x: Value, eps: float) -> Value:
    width = x.shape[-1]
    return g.layer_norm(x, g.param(f"{name}.weight", (width,)), g.param(f"{name}.bias", (width,)), eps=eps)


def mlp(*, batch: int = 64, inputs: int = 784, hidden: int = 512, outputs: int = 10) -> GraphBuilder:
    """A perceptron for images of digits: two hidden layers, one with exact gelu and one with relu."""
    g = GraphBuilder()
    x = g.input("x", (batch, inputs))
    first = g.gelu(linear(g, "fc1", x, hidden))
    second = g.relu(linear(g, "fc2", first, hidden))
    g.output("logits", linear(g, "fc3", second, outputs))
    return g


def bert_layer(
    *, batch: int = 1, seq: int = 128, hidden: int = 768, heads: int = 12, intermediate: int = 3072
) -> GraphBuilder:
    """A layer of BERT: self-attention with one projection to Q, K and V, a padding mask, norms after the residuals."""
    g = GraphBuilder()
    x = g.input("hidden", (batch, seq, hidden))
    mask = g.input("attention_mask", (batch, seq))
    qkv = linear(g, "qkv", x, 3 * hidden).named("qkv")
    q, k, v = (part.named(n) for part, n in zip(g.split(qkv, 2, [hidden] * 3), "qkv", strict=True))
    attention = AttentionOp(
        q.ssa, k.ssa, v.ssa, mask.ssa, num_heads=heads, head_dim=hidden // heads, layout="bsd", mask_kind="custom"
    )
    attended = linear(g, "out", g.insert(attention), hidden)
    normed = layer_norm(g, "norm1", attended + x, 1e-12)
    forward = linear(g, "fc2", g.gelu(linear(g, "fc1", normed, intermediate)), hidden)
    g.output("output", layer_norm(g, "norm2", forward + normed, 1e-12))
    return g


def llama_block(
    *,
    batch: int = 1,
    seq: int = 64,
    past: int = 0,
    hidden: int = 1024,
    heads: int = 16,
    kv_heads: int = 4,
    intermediate: int = 2816,
) -> GraphBuilder:
    """A decoder block in the style of LLaMA: RMS norms, rotary positions, grouped-query attention, SwiGLU."""
    g = GraphBuilder()
    head_dim = hidden // heads
    x = g.input("hidden", (batch, seq, hidden))
    cos, sin = (g.input(name, (seq, head_dim // 2)) for name in ("rope_cos", "rope_sin"))

    def rms_norm(name: str, value: Value) -> Value:
        return g.rms_norm(value, g.param(f"{name}.weight", (hidden,)), g.constant(np.zeros(hidden)), eps=1e-6)

    def rotated(value: Value) -> Value:
        return g.insert(RopeOp(value.ssa, cos.ssa, sin.ssa, head_dim=head_dim, layout="bsd"))

    normed = rms_norm("input_norm", x)
    q = rotated(linear(g, "q_proj", normed, hidden, bias=False))
    k = rotated(linear(g, "k_proj", normed, kv_heads * head_dim, bias=False))
    v = linear(g, "v_proj", normed, kv_heads * head_dim, bias=False)
    if past:  # the keys and values of earlier positions are inputs
        k, v = (
            g.concat([g.input(f"past_{name}", (batch, past, kv_heads * head_dim)), new], 1)
            for name, new in (("keys", k), ("values", v))
        )
    attention = AttentionOp(
        q.ssa,
        k.ssa,
        v.ssa,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        layout="bsd",
        mask_kind="causal",
    )
    attended = x + linear(g, "o_proj", g.insert(attention), hidden, bias=False)
    normed = rms_norm("post_attention_norm", attended)
    up = linear(g, "up_proj", normed, intermediate, bias=False)
    gate = linear(g, "gate_proj", normed, intermediate, bias=False)
    g.output("output", attended + linear(g, "down_proj", up * g.silu(gate), hidden, bias=False))
    return g


def dit_block(
    *, batch: int = 1, seq: int = 256, hidden: int = 384, heads: int = 6, intermediate: int = 1536
) -> GraphBuilder:
    """A diffusion transformer block: norms and residuals are scaled, shifted and gated by a condition (adaLN-Zero)."""
    g = GraphBuilder()
    x = g.input("x", (batch, seq, hidden))
    condition = g.input("condition", (batch, hidden))
    modulation = g.reshape(linear(g, "modulation", g.silu(condition), 6 * hidden), (batch, 1, 6 * hidden))
    names = ["shift1", "scale1", "gate1", "shift2", "scale2", "gate2"]
    shift1, scale1, gate1, shift2, scale2, gate2 = (
        part.named(n) for part, n in zip(g.split(modulation, 2, [hidden] * 6), names, strict=True)
    )

    def modulated(value: Value, scale: Value, shift: Value) -> Value:
        norm = g.layer_norm(value, g.constant(np.ones(hidden)), g.constant(np.zeros(hidden)), eps=1e-6)
        return norm * (1.0 + scale) + shift

    qkv = linear(g, "qkv", modulated(x, scale1, shift1), 3 * hidden)
    q, k, v = g.split(qkv, 2, [hidden] * 3)
    attention = AttentionOp(q.ssa, k.ssa, v.ssa, num_heads=heads, head_dim=hidden // heads, layout="bsd")
    attended = x + gate1 * linear(g, "proj", g.insert(attention), hidden)
    inner = g.activation("gelu_approx", linear(g, "fc1", modulated(attended, scale2, shift2), intermediate))
    g.output("output", attended + gate2 * linear(g, "fc2", inner, hidden))
    return g


def resnet_block(*, batch: int = 1, channels: int = 256, width: int = 64, size: int = 56) -> GraphBuilder:
    """A bottleneck of ResNet (NCHW): three convolutions, each with its batch norm as scale and shift."""
    g = GraphBuilder()
    x = g.input("x", (batch, channels, size, size))

    def conv(name: str, value: Value, out: int, kernel: int) -> Value:
        weight = g.param(f"{name}.weight", (out, value.shape[1], kernel, kernel))
        scale, shift = (g.reshape(g.param(f"{name}.{part}", (out,)), (out, 1, 1)) for part in ("scale", "shift"))
        return g.insert(ConvOp(value.ssa, weight.ssa, padding=[kernel // 2] * 2)) * scale + shift

    first = g.relu(conv("conv1", x, width, 1))
    second = g.relu(conv("conv2", first, width, 3))
    g.output("y", g.relu(conv("conv3", second, channels, 1) + x))
    return g


EXAMPLES: dict[str, Callable[..., GraphBuilder]] = {
    f.__name__: f for f in (mlp, bert_layer, llama_block, dit_block, resnet_block)
}


def text(name: str, **sizes: int) -> str:
    """The example as it is written to its file."""
    function = EXAMPLES[name]
    command = " ".join(["examples/generate.py", name, *(f"--{k} {v}" for k, v in sizes.items())])
    return f"// {inspect.getdoc(function)}\n// Generated: python {command}\n{print_module(function(**sizes).module())}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where to write (default: here)")
    commands = parser.add_subparsers(dest="name", metavar="NAME")
    for name, function in EXAMPLES.items():
        command = commands.add_parser(name, help=inspect.getdoc(function), description=inspect.getdoc(function))
        for parameter in inspect.signature(function).parameters.values():
            command.add_argument(f"--{parameter.name}", type=int, help=f"default {parameter.default}")
    options = vars(parser.parse_args(argv))
    folder: Path = options.pop("folder")
    name: str | None = options.pop("name")
    sizes = {key: value for key, value in options.items() if value is not None}
    for each in [name] if name else EXAMPLES:
        path = folder / f"{each}.mlir"
        path.write_text(text(each, **sizes))
        print(path)


if __name__ == "__main__":
    main()
