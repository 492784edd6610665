"""The Transformer against explicit loops and torch's own layers, in float64."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.parametrizations import weight_norm

from nmt.config.models import TransformerConfig
from nmt.data.batches import Batch
from nmt.models.attention import MANY, SHORT, Attention, attend
from nmt.models.embedding import causal_mask, sinusoidal
from nmt.models.fast_layers import Dropout
from nmt.models.loss import _greatest, cross_entropy
from nmt.models.transformer import Transformer
from nmt.report.figures import plots
from nmt.system.machine import pytorch_kernels

PAD = 0


def make(**options: object) -> Transformer:
    torch.manual_seed(0)
    settings = {"layers": 2, "width": 16, "ffn": 32, "heads": 2, "dropout": 0.0, "max_positions": 32} | options
    return Transformer(
        TransformerConfig.model_validate(settings), 23, 23 if options.get("tied") == "all" else 29, PAD
    ).double()


def padded(lengths: list[int], vocabulary: int = 23) -> Tensor:
    torch.manual_seed(1)
    ids = torch.randint(4, vocabulary, (len(lengths), max(lengths)))
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = PAD
    return ids


def explicit_attention(layer: Attention, x: Tensor, memory: Tensor, allowed: Tensor) -> Tensor:
    """Position by position, head by head; allowed (T, S) bool; one sentence (T, D) over (S, D)."""
    width, size = x.shape[1], x.shape[1] // layer.heads
    zeros = x.new_zeros(3 * width)
    weights = layer.project.weight.split(width)
    biases = (zeros if layer.project.bias is None else layer.project.bias).split(width)
    rows = []
    for t in range(len(x)):
        heads = []
        for h in range(layer.heads):
            part = slice(h * size, (h + 1) * size)
            query = weights[0][part] @ x[t] + biases[0][part]
            keys = [weights[1][part] @ m + biases[1][part] for m in memory]
            values = [weights[2][part] @ m + biases[2][part] for m in memory]
            scores = [
                float("-inf") if not allowed[t, s] else query @ keys[s] / math.sqrt(size) for s in range(len(memory))
            ]
            shares = torch.softmax(torch.stack([torch.as_tensor(s, dtype=x.dtype) for s in scores]), 0)
            heads.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        row = torch.cat(heads)
        if isinstance(layer.output, torch.nn.Linear):
            row = layer.output.weight @ row + (0 if layer.output.bias is None else layer.output.bias)
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.integration
@pytest.mark.parametrize("length", [5, 17])  # less than an instruction holds, and more
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("output", "bias"), list(itertools.product([True, False], repeat=2)))
def test_attention_equals_explicit_loop_forward_and_gradient(
    output: bool, bias: bool, causal: bool, length: int
) -> None:
    torch.manual_seed(2)
    settings = {"width": 12, "heads": 3, "dropout": 0.0, "attention_output": output, "attention_bias": bias}
    layer = Attention(TransformerConfig.model_validate(settings)).double()
    expected = {"project.weight", *["project.bias"] * bias, *["output.weight"] * output}
    assert {name for name, _ in layer.named_parameters()} == expected | {*["output.bias"] * (bias and output)}
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x = torch.randn(1, length, 12, dtype=torch.float64, requires_grad=True)
    allowed = causal_mask(length) if causal else (torch.arange(length) < 3).expand(length, length)
    mask = torch.zeros(length, length, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
    queries, (keys, values) = layer.queries_keys_values(x)
    ours = layer(queries, (keys, values), mask)[0]
    theirs = explicit_attention(layer, x[0], x[0], allowed)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weight, inputs = torch.randn_like(ours), [x, *layer.parameters()]
    found, wanted = (torch.autograd.grad((out * weight).sum(), inputs) for out in (ours, theirs))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer_equals_torch_layer(norm: str) -> None:
    model = make(norm=norm)
    ours = model.encoder[0].eval()
    theirs = (
        torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=norm == "pre").double().eval()
    )
    pairs = {
        "self_attn.in_proj_weight": ours.attention.project.weight,
        "self_attn.in_proj_bias": ours.attention.project.bias,
        "self_attn.out_proj.weight": ours.attention.output.weight,
        "self_attn.out_proj.bias": ours.attention.output.bias,
        "linear1.weight": ours.feed_forward.inner.weight,
        "linear1.bias": ours.feed_forward.inner.bias,
        "linear2.weight": ours.feed_forward.outer.weight,
        "linear2.bias": ours.feed_forward.outer.bias,
    }
    theirs.load_state_dict(theirs.state_dict() | pairs)
    x = torch.randn(3, 7, 16, dtype=torch.float64)
    padding = torch.arange(7) >= torch.tensor([7, 5, 2])[:, None]
    mask = torch.zeros(3, 1, 1, 7, dtype=torch.float64).masked_fill(padding[:, None, None], -torch.inf)
    got, expected = ours(x, mask), theirs(x, src_key_padding_mask=padding)
    torch.testing.assert_close(got[~padding], expected[~padding], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "pre"},
        {"tied": "all"},
        {"tied": "none"},
        {"positions": "learned"},
        {"decoder_layers": 1, "activation": "gelu", "scale_embeddings": False},
        {"context": "gru"},
        {"attention_output": False},
        {"attention_bias": False, "norm": "pre"},
        {"attention_output": False, "attention_bias": False},
    ],
)
@pytest.mark.parametrize("laid_out", [False, True])
def test_steps_equal_teacher_forcing_and_padding_changes_nothing(options: dict[str, object], laid_out: bool) -> None:
    model = make(**options).eval()
    for bias_or_norm in (p for p in model.parameters() if p.dim() == 1):
        torch.nn.init.normal_(bias_or_norm, std=0.5)  # that of no two layers the same
    source, target = padded([6, 3, 4]), padded([7, 7, 7])
    whole = torch.log_softmax(model.projection(model(source, target)).float(), -1)
    alone = torch.log_softmax(model.projection(model(source[1:2, :3], target[1:2])).float(), -1)
    torch.testing.assert_close(alone[0], whole[1], rtol=0, atol=1e-6)
    state = (model.lay_out_for_search() if laid_out else model).start(source)
    for t in range(7):
        log_probs, state = model.step(state, target[:, t])
        torch.testing.assert_close(log_probs, whole[:, t], rtol=0, atol=1e-6)


@pytest.mark.parametrize("sentences", [2, 6])  # attention by the fused kernel, and by products
def test_steps_of_chosen_rows_equal_teacher_forcing_beyond_the_first_places(sentences: int) -> None:
    model = make().eval()
    source, target = padded([5, 20, 9, 4, 7, 3][:sentences]), padded([25] * sentences)
    whole = torch.log_softmax(model.projection(model(source, target)).float(), -1)
    state, rows = model.start(source), torch.arange(sentences)
    for t in range(25):
        if t in (1, 18):  # each sentence has two rows from here on, once its first place is taken and once 16 are
            state = model.reorder(state, torch.arange(len(rows)).repeat_interleave(2))
            rows = rows.repeat_interleave(2)
        if t == 21:  # the first sentence leaves
            state = model.reorder(model.keep(state, torch.arange(1, sentences)), torch.arange(4, len(rows)))
            rows = rows[4:]
        log_probs, state = model.step(state, target[rows, t])
        torch.testing.assert_close(log_probs, whole[rows, t], rtol=0, atol=1e-6)


@pytest.mark.parametrize("sentences", [MANY - 1, MANY])
@pytest.mark.parametrize("length", [9, SHORT // 3, SHORT // 3 + 1])
def test_attend_mixes_values_by_the_weights_of_a_loop_with_any_kernel(sentences: int, length: int) -> None:
    queries, keys, values = (torch.randn(sentences, 2, n, 8) for n in (3, length, length))
    mask = torch.zeros(sentences, 1, 1, length).masked_fill_(torch.rand(sentences, 1, 1, length) < 0.3, -torch.inf)
    mask[..., 0] = 0
    found = attend(queries, keys, values, mask)
    for b, h, t in itertools.product(range(sentences), range(2), range(3)):
        weights = torch.softmax(mask[b, 0, 0] + (keys[b, h] * queries[b, h, t]).sum(-1) / math.sqrt(8), 0)
        torch.testing.assert_close(found[b, h, t], (weights[:, None] * values[b, h]).sum(0), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("wanted", "meanwhile"), [(True, "highest"), (False, "medium")])
def test_kernels_without_shapes_last_as_long_as_they_are_wanted(wanted: bool, meanwhile: str) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(KeyError), pytorch_kernels(wanted):
            assert torch.get_float32_matmul_precision() == meanwhile
            raise KeyError
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_laid_out_for_search_linear_weights_lie_by_input_and_embeddings_as_they_were() -> None:
    model = make(tied="all").eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    after = model.lay_out_for_search().state_dict()
    projection = after.pop("projection.weight")  # filled up from 23 pieces to 32
    torch.testing.assert_close(projection, F.pad(before.pop("projection.weight"), (0, 0, 0, 9)), rtol=0, atol=0)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert model.projection.weight.t().is_contiguous()
    assert model.decoder[0].source_attention.query_weights()[0].stride() == (1, 3 * 16)
    assert model.target_embedding.pieces.weight.is_contiguous()


def test_weights_that_are_computed_stay_as_they_are_in_a_search() -> None:
    model = make().eval()
    model.extra = weight_norm(torch.nn.Linear(3, 4))
    before = model.extra.weight.clone()
    torch.testing.assert_close(model.lay_out_for_search().extra.weight, before)


@pytest.mark.parametrize("context", ["none", "gru"])
def test_the_decoder_sees_no_future(context: str) -> None:
    model, source, target = make(context=context).eval(), padded([5]), padded([6])
    before = model(source, target)
    target[0, 4] = 5 if target[0, 4] != 5 else 6
    torch.testing.assert_close(model(source, target)[:, :4], before[:, :4], rtol=0, atol=0)


def test_context_is_a_gru_over_the_embeddings_both_ways() -> None:
    model = make(context="gru").eval()
    assert model.context is not None
    x, layer = torch.randn(1, 5, 16, dtype=torch.float64), model.context.layer
    expected = []
    for direction, order in (("", range(5)), ("_reverse", reversed(range(5)))):
        cell = torch.nn.GRUCell(16, 8).double()
        cell.load_state_dict({n: getattr(layer, f"{n}_l0{direction}") for n in cell.state_dict()})
        state, outputs = torch.zeros(1, 8, dtype=torch.float64), {}
        for t in order:
            outputs[t] = state = cell(x[:, t], state)
        expected.append(torch.stack([outputs[t] for t in range(5)], 1))
    got = model.context(x, torch.ones(1, 5, dtype=torch.bool))
    torch.testing.assert_close(got, torch.cat(expected, -1), rtol=0, atol=1e-12)


def test_tying_shares_the_matrices_and_their_count() -> None:
    parameters = {tied: sum(p.numel() for p in make(tied=tied).parameters()) for tied in ("none", "decoder")}
    assert parameters["none"] - parameters["decoder"] == 29 * 16
    model = make(tied="all")
    assert model.projection.weight is model.source_embedding.pieces.weight is model.target_embedding.pieces.weight


def test_cross_entropy_with_a_bias_as_the_mean_of_sentence_means() -> None:
    torch.manual_seed(3)
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((9, 8), (31, 8), (31,)))
    target = torch.tensor([[2, 7, 5, 8, 9, 3], [2, 4, 3, 0, 0, 0]])  # sentences of 5 and 2 pieces after BOS
    batch = Batch(target, target, (target[:, 1:].flatten() != 0).nonzero()[:, 0])
    rows = hidden[: batch.pieces]
    shares = batch.sentence_shares
    loss, nll, _ = cross_entropy(rows, weight, batch.expected, 0.1, bias=bias, shares=shares)
    losses = F.cross_entropy(rows @ weight.t() + bias, batch.expected, reduction="none", label_smoothing=0.1)
    expected = losses[:5].mean() + losses[5:].mean()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    plain = F.cross_entropy(rows @ weight.t() + bias, batch.expected, reduction="sum")
    assert nll.item() == pytest.approx(plain.item(), abs=1e-5)
    leaves = [hidden, weight, bias]
    for a, b in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 4 * 2**20])
def test_chunked_cross_entropy_equals_torch(monkeypatch: pytest.MonkeyPatch, smoothing: float, chunk: int) -> None:
    monkeypatch.setattr("nmt.models.loss.CHUNK_BYTES", chunk)
    torch.manual_seed(3)
    hidden = torch.randn(70, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(31, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(31, (70,))
    loss, nll, correct = cross_entropy(hidden, weight, targets, smoothing)
    scores = hidden @ weight.t()
    expected = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert nll.item() == pytest.approx(F.cross_entropy(scores, targets, reduction="sum").item(), abs=1e-9)
    assert int(correct) == int((scores.argmax(-1) == targets).sum())
    for a, b in zip(
        torch.autograd.grad(loss / 7, [hidden, weight]),
        torch.autograd.grad(expected / 7, [hidden, weight]),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 4 * 2**20])
def test_consistency_is_the_papers_loss(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("nmt.models.loss.CHUNK_BYTES", chunk)
    monkeypatch.setattr("nmt.models.loss.CHUNK_ROWS", 64)
    torch.manual_seed(3)
    passes = torch.randn(2, 70, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(31, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(31, (70,))
    loss, nll, correct = cross_entropy(passes.flatten(0, 1), weight, targets, 0.1, 5.0)
    p, q = torch.log_softmax(passes @ weight.t(), -1)
    losses = [F.cross_entropy(s, targets, reduction="sum", label_smoothing=0.1) for s in (p, q)]
    divergences = [F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((p, q), (q, p))]
    expected = (sum(losses) + 5.0 * sum(divergences) / 2) / 2  # the paper's loss adds both passes up
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert nll.item() == pytest.approx(sum(F.nll_loss(s, targets, reduction="sum").item() for s in (p, q)) / 2)
    assert float(correct) == sum(int((s.argmax(-1) == targets).sum()) for s in (p, q)) / 2
    for ours, theirs in zip(
        torch.autograd.grad(loss, [passes, weight]), torch.autograd.grad(expected, [passes, weight]), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_consistency_in_bfloat16_has_the_same_gradients() -> None:
    """But for rounding, where predictions are certain and the passes' differences small beside them."""
    torch.manual_seed(3)
    weight, targets = torch.randn(500, 64), torch.randint(500, (60,))
    hidden = (weight[targets].repeat(2, 1) + 0.3 * torch.randn(120, 64)) / 5
    found = []
    for dtype, narrow in ((torch.float32, True), (torch.float64, False)):
        leaf = weight.to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss, *_ = cross_entropy(hidden.to(dtype), leaf, targets, 0.0, 5.0)
        found.append(*torch.autograd.grad(loss, leaf))
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 0.08


@pytest.mark.parametrize("shift", [-9.0, 0.0, 9.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_greatest_of_each_row_is_found_whatever_the_signs(shift: float, dtype: torch.dtype) -> None:
    torch.manual_seed(6)
    rows = (torch.randn(50, 33) + shift).to(dtype)
    rows[0], rows[1, :32], rows[2, 5] = -0.0, -torch.inf, torch.inf
    assert torch.equal(_greatest(rows), rows.max(-1).values)
    rows[3, 7] = torch.nan
    assert torch.equal(_greatest(rows).isnan().nonzero().flatten(), torch.tensor([3]))


def test_dropout_drops_the_share_and_keeps_the_mean() -> None:
    torch.manual_seed(4)
    layer, x = Dropout(0.3), torch.ones(1000, 1001)
    y = layer(x)
    assert float((y == 0).float().mean()) == pytest.approx(0.3, abs=0.003)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.005)
    neighbours = (y[:, 1:] == 0).float() * (y[:, :-1] == 0).float()  # four elements share a draw: still independent
    assert float(neighbours.mean()) == pytest.approx(0.09, abs=0.002)
    assert torch.equal(layer.eval()(x), x)


def test_dropout_add_equals_dropout_then_add() -> None:
    layer, x, residual = Dropout(0.5), torch.randn(7, 9), torch.randn(7, 9)
    torch.manual_seed(5)
    expected = residual + layer(x)
    torch.manual_seed(5)
    torch.testing.assert_close(layer.add(x, residual), expected)


def test_sinusoidal_positions_follow_the_formula() -> None:
    table = sinusoidal(50, 512)
    for position, column in [(0, 0), (0, 1), (3, 10), (3, 11), (49, 511), (49, 510)]:
        angle = position / 10000 ** (2 * (column // 2) / 512)
        assert float(table[position, column]) == pytest.approx(
            math.cos(angle) if column % 2 else math.sin(angle), abs=1e-6
        )
    np.testing.assert_allclose(plots.sinusoidal(50, 512), table.numpy(), atol=1e-6)  # the figure's
