"""RMS normalisation, gated feed-forward layers, rotary positions and grouped queries against loops, in float64."""

import cmath
import math
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from nmt.config.models import ModelConfig, TransformerConfig
from nmt.models.attention import Attention
from nmt.models.build import build
from nmt.models.layers import FeedForward, Residual
from nmt.models.transformer import Transformer

PAD = 0
OPTIONS: dict[str, dict[str, Any]] = {
    "rms": {"normalisation": "rms"},
    "geglu": {"activation": "geglu"},
    "swiglu": {"activation": "swiglu"},
    "rotary": {"positions": "rotary"},
    "grouped": {"key_value_heads": 2},
    "one head of keys": {"key_value_heads": 1},
}
OPTIONS["together"] = OPTIONS["rms"] | OPTIONS["swiglu"] | OPTIONS["rotary"] | OPTIONS["grouped"]
OPTIONS["bare"] = OPTIONS["together"] | {"attention_output": False, "attention_bias": False, "norm": "pre"}


def make(**options: Any) -> Transformer:
    torch.manual_seed(4)
    settings = {"layers": 2, "decoder_layers": 1, "width": 16, "ffn": 6, "heads": 4, "dropout": 0.0, "max_positions": 9}
    model = Transformer(TransformerConfig.model_validate(settings | options), 11, 13, PAD).double()
    for parameter in (p for p in model.parameters() if p.dim() == 1):
        nn.init.normal_(parameter, std=0.5)  # no bias is 0, and no gain is 1
    return model


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    if isinstance(layer, nn.Identity):
        return x
    assert isinstance(layer, nn.Linear)
    return layer.weight @ x + (0 if layer.bias is None else layer.bias)


def normalise(norm: nn.Module, x: Tensor) -> Tensor:
    """One row, number by number."""
    numbers = list(x)
    if isinstance(norm, nn.RMSNorm):
        root = torch.sqrt(sum(n * n for n in numbers) / len(numbers) + 1e-5)
        return torch.stack([n / root * gain for n, gain in zip(numbers, norm.weight, strict=True)])
    if isinstance(norm, nn.Identity):
        return x
    assert isinstance(norm, nn.LayerNorm)
    mean = sum(numbers) / len(numbers)
    root = torch.sqrt(sum((n - mean) ** 2 for n in numbers) / len(numbers) + 1e-5)
    return (x - mean) / root * norm.weight + norm.bias


def feed_forward(layer: FeedForward, kind: str, x: Tensor) -> Tensor:
    inner = linear(layer.inner, x)
    if kind == "relu":
        return linear(layer.outer, torch.stack([max(n, n * 0) for n in inner]))
    half = len(inner) // 2
    units = []
    for gate, value in zip(inner[:half], inner[half:], strict=True):
        share = 1 / (1 + torch.exp(-gate)) if kind == "swiglu" else 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
        units.append(gate * share * value)
    return linear(layer.outer, torch.stack(units))


def rotated(x: Tensor, position: int) -> Tensor:
    """Numbers i and i + W/2 as a complex number, times e^(i · angle)."""
    half = len(x) // 2
    parts = []
    for i in range(half):
        turn = cmath.exp(1j * position * 10000 ** (-2 * i / len(x)))
        parts.append((x[i] * turn.real - x[i + half] * turn.imag, x[i + half] * turn.real + x[i] * turn.imag))
    return torch.stack([first for first, _ in parts] + [second for _, second in parts])


def attention(layer: Attention, config: Any, x: list[Tensor], memory: list[Tensor], causal: bool) -> list[Tensor]:
    """Self-attention if ``x`` is ``memory``: then queries and keys are rotated."""
    size, heads = config.width // config.heads, config.heads
    groups = config.key_value_heads or heads
    rows = []
    for t, row in enumerate(x):
        query, mixed = linear(layer.project, row)[: heads * size].split(size), []
        for h in range(heads):
            scores, values = [], []
            for s, seen in enumerate(memory[: t + 1] if causal else memory):
                projected = linear(layer.project, seen)[heads * size :].split(size)
                shared = h // (heads // groups)
                key, value = projected[shared], projected[groups + shared]
                one = query[h]
                if config.positions == "rotary" and x is memory:
                    one, key = rotated(one, t), rotated(key, s)
                scores.append(one @ key / math.sqrt(size))
                values.append(value)
            exponentials = [torch.exp(score) for score in scores]
            total = sum(exponentials)
            mixed.append(sum(e / total * value for e, value in zip(exponentials, values, strict=True)))
        rows.append(linear(layer.output, torch.cat([torch.as_tensor(part) for part in mixed])))
    return rows


def around(residual: Residual, x: list[Tensor], outputs: list[Tensor]) -> list[Tensor]:
    added = [row + output for row, output in zip(x, outputs, strict=True)]
    return added if residual.pre else [normalise(residual.norm, row) for row in added]


def before(residual: Residual, x: list[Tensor]) -> list[Tensor]:
    return [normalise(residual.norm, row) for row in x] if residual.pre else x


def embedded(embedding: Any, ids: Tensor, rotary: bool) -> list[Tensor]:
    rows = [embedding.pieces.weight[i] * math.sqrt(16) for i in ids]
    return rows if rotary else [row + embedding.positions[t] for t, row in enumerate(rows)]


def explicit(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """The decoder outputs of one pair (T, D)."""
    config: Any = model.config
    rotary = config.positions == "rotary"
    memory = embedded(model.source_embedding, source, rotary)
    for layer in model.encoder:
        first, last = layer.residuals
        seen = before(first, memory)
        memory = around(first, memory, attention(layer.attention, config, seen, seen, causal=False))
        rows = [feed_forward(layer.feed_forward, config.activation, row) for row in before(last, memory)]
        memory = around(last, memory, rows)
    memory = [normalise(model.encoder_norm, row) for row in memory]
    x = embedded(model.target_embedding, target, rotary)
    for layer in model.decoder:
        first, second, last = layer.residuals
        seen = before(first, x)
        x = around(first, x, attention(layer.attention, config, seen, seen, causal=True))
        x = around(second, x, attention(layer.source_attention, config, before(second, x), memory, causal=False))
        x = around(last, x, [feed_forward(layer.feed_forward, config.activation, row) for row in before(last, x)])
    return torch.stack([normalise(model.decoder_norm, row) for row in x])


@pytest.mark.integration
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("training", [True, False])
def test_the_model_and_its_gradients_equal_loops(name: str, training: bool) -> None:
    model = make(**OPTIONS[name]).train(training)
    pairs = [(torch.tensor([3, 5, 7, 2]), torch.tensor([2, 9, 4])), (torch.tensor([6, 2]), torch.tensor([2, 12, 8]))]
    source, target = (nn.utils.rnn.pad_sequence(side, True, PAD) for side in zip(*pairs, strict=True))
    ours, theirs = model(source, target), torch.stack([explicit(model, *pair) for pair in pairs])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    weight = torch.randn_like(theirs)
    named = [(name, p) for name, p in model.named_parameters() if not name.startswith("projection")]
    found, expected = (
        torch.autograd.grad((outputs * weight).sum(), [p for _, p in named]) for outputs in (ours, theirs)
    )
    for (parameter, _), one, other in zip(named, found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10, msg=parameter)


@pytest.mark.parametrize("name", OPTIONS)
def test_steps_of_chosen_rows_equal_teacher_forcing(name: str) -> None:
    model = make(**OPTIONS[name], max_positions=40).eval()
    source = torch.randint(4, 11, (6, 7))
    for row, length in zip(source, (7, 3, 5, 7, 2, 6), strict=True):
        row[length:] = PAD
    target = torch.randint(4, 13, (6, 25))
    whole = torch.log_softmax(model.projection(model(source, target)).float(), -1)
    state, rows = model.start(source), torch.arange(6)
    for t in range(25):
        if t in (1, 18):  # each sentence has two rows from here on, once its first place is taken and once 16 are
            state = model.reorder(state, torch.arange(len(rows)).repeat_interleave(2))
            rows = rows.repeat_interleave(2)
        if t == 21:  # the first sentence leaves
            state = model.reorder(model.keep(state, torch.arange(1, 6)), torch.arange(4, len(rows)))
            rows = rows[4:]
        log_probs, state = model.step(state, target[rows, t])
        torch.testing.assert_close(log_probs, whole[rows, t], rtol=0, atol=1e-6)
    assert state.past[0].buffer.shape[2] == (model.config.key_value_heads or 4)  # the cache has the shared heads alone


def test_attention_maps_of_grouped_queries_are_those_of_each_head() -> None:
    model = make(**OPTIONS["together"]).eval()
    source, target = torch.tensor([[3, 5, 7, 2]]), torch.tensor([[2, 9, 4]])
    maps = model.attentions(source, target)
    assert {part: tuple(weights.shape) for part, weights in maps.items()} == {
        "encoder": (1, 2, 4, 4, 4), "decoder": (1, 1, 4, 3, 3), "source": (1, 1, 4, 3, 4),
    }  # fmt: skip
    assert all(torch.allclose(weights.sum(-1), torch.ones((), dtype=torch.float64)) for weights in maps.values())
    assert not maps["decoder"].triu(1).any() and len(maps["decoder"][0, 0, :, 2].unique(dim=0)) == 4


def test_rotary_products_depend_on_the_distance_alone() -> None:
    rotary = make(**OPTIONS["rotary"]).encoder[0].attention.rotary
    assert rotary is not None
    query, key = torch.randn(2, 4, dtype=torch.float64)
    products = [[float(rotary.at(query, t) @ rotary.at(key, s)) for s in range(9)] for t in range(9)]
    for t in range(8):
        assert products[t + 1][1:] == pytest.approx(products[t][:-1], abs=1e-12)
    assert len({round(product, 6) for product in products[4]}) == 9


def count(**options: Any) -> int:
    return sum(p.numel() for p in build(TransformerConfig(width=64, ffn=96, **options), 100, 100, 0).parameters())


def test_numbers_of_parameters() -> None:
    plain, layers = count(), 12
    assert count(positions="rotary") == plain
    assert count(normalisation="rms") == plain - 64 * (2 * 6 + 3 * 6)
    assert count(activation="swiglu") == plain + layers * (64 + 1) * 96
    assert count(key_value_heads=2) == plain - 3 * 6 * 2 * (64 + 1) * (64 - 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_value_heads": 3}, "key_value_heads must divide heads, got 3 and 4"),
        ({"positions": "rotary", "width": 12}, "rotary positions need an even width of each head, got width 12 and 4"),
        ({"positions": "rotary", "kind": "multimodal"}, "positions: rotary needs fusion: gated, got queries"),
        ({"normalisation": "none"}, "normalisation"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(ModelConfig).validate_python({"width": 16, "heads": 4} | options)
