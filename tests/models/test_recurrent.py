"""Recurrent models against explicit loops over sentences and positions, in float64; words that nobody knows."""

import math
from typing import Any

import pytest
import torch
from copytask import write_clean
from torch import Tensor

from nmt.config.data import SpecialIds, Subwords
from nmt.config.decoding import Decoding
from nmt.config.models import AttentionConfig, RecurrentConfig
from nmt.data.encode import encode_corpus
from nmt.models.alignment import Alignment
from nmt.models.embedding import Embedding
from nmt.models.masked_rnn import masked_rnn, packed
from nmt.models.recurrent import Recurrent
from nmt.models.search import Hypothesis, search
from nmt.system.errors import ConfigError
from nmt.text.subwords import learn
from nmt.training.average import average
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.translation.translator import Translator

IDS = SpecialIds()
PAD = IDS.pad
SOURCE = torch.tensor([[2, 5, 6, 7, 8, 9, 4, 5, 3], [2, 5, 6, 3, 0, 0, 0, 0, 0], [2, 8, 7, 6, 4, 9, 3, 0, 0]])
TARGET = torch.tensor([[2, 7, 5, 8, 9, 10], [2, 4, 4, 6, 0, 0], [2, 11, 7, 6, 5, 0]])
KINDS = ["global", "local-p", "local-m"]
SCORES = ["dot", "general", "additive"]


def make(seed: int = 0, **options: Any) -> Recurrent:
    """A small model in float64 whose weights are large enough for every part to matter."""
    torch.manual_seed(seed)
    settings = {"kind": "recurrent", "width": 8, "layers": 2, "dropout": 0.0, "tied": "none"} | options
    model = Recurrent(
        RecurrentConfig.model_validate(settings), 12, 13 if settings["tied"] != "all" else 12, PAD
    ).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def explicit(attention: Alignment, state: Tensor, memory: Tensor, real: int, step: int) -> list[Tensor]:
    """The weights of one decoder state over one sentence, position by position, from the papers' formulas.

    With pad_source, the memory has ``window`` places before the sentence, and ``real`` counts the sentence alone.
    """
    config, window = attention.config, attention.config.window
    first = window if config.pad_source else 0

    def score(s: int) -> Tensor:
        if config.score == "dot":
            return sum((state[i] * memory[s + first, i] for i in range(len(state))), torch.zeros(()))
        projected = attention.keys.weight @ memory[s + first]
        if config.score == "general":
            return state @ projected
        return attention.energy.weight[0] @ torch.tanh(
            attention.queries.weight @ state + attention.queries.bias + projected
        )

    centre: Tensor | float = 0.0
    if config.kind == "local-p":
        inner, outer = attention.centre[0], attention.centre[2]
        biases = (0.0, 0.0) if inner.bias is None else (inner.bias, outer.bias[0])
        hidden = torch.tanh(inner.weight @ state + biases[0])
        centre = real / (1 + torch.exp(-(outer.weight[0] @ hidden + biases[1])))
    elif config.kind == "local-m":
        centre = min(step, real - 1)
    near = float(centre.detach()) if isinstance(centre, Tensor) else centre
    seen = [s for s in range(real) if config.kind == "global" or abs(s - near) <= window]
    if config.pad_source:
        seen = list(range(round(near) - window, round(near) + window + 1))
    scores = {s: torch.exp(score(s)) if 0 <= s < real else torch.ones((), dtype=state.dtype) for s in seen}
    weights = [torch.zeros((), dtype=state.dtype)] * len(memory)
    for s in seen:
        gauss = torch.exp(-((s - centre) ** 2) / (2 * (window / 2) ** 2)) if config.kind == "local-p" else 1.0
        weights[s + first] = scores[s] / sum(scores.values()) * gauss
    return weights


@pytest.mark.integration
@pytest.mark.parametrize("window", [1, 2, 7])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_attention_equals_an_explicit_loop_forward_and_gradient(kind: str, score: str, window: int) -> None:
    torch.manual_seed(1)
    attention = Alignment(AttentionConfig(kind=kind, score=score, window=window), 5, 5).double()  # type: ignore[arg-type]
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=2.0)  # predicted centres reach both ends of the sentence
    lengths = [9, 1, 4, 2]
    real = torch.arange(9) < torch.tensor(lengths)[:, None]
    states = torch.randn(4, 12, 5, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(4, 9, 5, dtype=torch.float64, requires_grad=True)
    leaves = [states, memory, *attention.parameters()]
    found = attention(states, attention.keys(memory), real, torch.arange(12))
    rows = [
        torch.stack([torch.stack(explicit(attention, states[b, t], memory[b], lengths[b], t)) for t in range(12)])
        for b in range(4)
    ]
    expected = torch.stack(rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert (found[~real[:, None].expand_as(found)] == 0).all()
    weighting = torch.randn_like(found)
    ours = torch.autograd.grad((found * weighting).sum(), leaves, allow_unused=True)
    theirs = torch.autograd.grad((expected * weighting).sum(), leaves, allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            torch.zeros(()) if a is None else a,
            torch.zeros(()) if b is None else b,
            rtol=0,
            atol=1e-10,
            check_dtype=False,
        )


def test_local_weights_are_a_softmax_times_a_gaussian() -> None:
    """With equal scores and a centre in the middle of the sentence: Luong and others 2015, equation 10."""
    attention = Alignment(AttentionConfig(kind="local-p", score="dot", window=4), 3, 3)
    torch.nn.init.zeros_(attention.centre[2].weight)  # sigmoid(0): the middle, 5 of 10
    weights = attention(
        torch.zeros(1, 1, 3), torch.zeros(1, 10, 3), torch.ones(1, 10, dtype=torch.bool), torch.zeros(1)
    )
    seen = [1 / 9 * math.exp(-((s - 5) ** 2) / (2 * 2**2)) if abs(s - 5) <= 4 else 0.0 for s in range(10)]
    torch.testing.assert_close(weights[0, 0], torch.tensor(seen))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
@pytest.mark.parametrize("lengths", [[2, 7, 1, 5], [7] * 4])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])  # other kernels
def test_padding_leaves_no_trace_as_in_packed_sequences(
    dtype: torch.dtype, error: float, lengths: list[int], kind: type[Any], bidirectional: bool
) -> None:
    torch.manual_seed(1)
    layer = kind(3, 4, batch_first=True, bidirectional=bidirectional).to(dtype)
    real = torch.arange(7) < torch.tensor(lengths)[:, None]
    x = torch.randn(4, 7, 3, dtype=dtype, requires_grad=True)
    results = []
    for run in (masked_rnn, packed):
        output, state = run(layer, x, real)
        found = [output * real[..., None], *state]
        weighted = [(each * torch.arange(each.numel()).view(each.shape).cos()).sum() for each in found]
        results.append([*found, *torch.autograd.grad(weighted, [x, *layer.parameters()])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=error)


def test_a_word_fed_back_has_the_gradient_of_any_other() -> None:
    torch.manual_seed(1)
    embedding = Embedding(9, 4, 0, 2.0, 0.0)
    ids, weighting = torch.tensor([[3], [0], [3]]), torch.randn(3, 1, 4)
    few, all_of_them = (
        torch.autograd.grad((embed(ids) * weighting).sum(), embedding.pieces.weight)[0]
        for embed in (embedding.forward_sparse, embedding)
    )
    assert few.is_sparse and torch.equal(few.to_dense(), all_of_them)


def explicit_cell(
    layer: torch.nn.LSTM | torch.nn.GRU, x: Tensor, cells: list[Tensor], suffix: str = ""
) -> list[Tensor]:
    """One step of one layer from the gates' formulas; x (I,), cells h and for an LSTM c, each (D,)."""
    part = {n: getattr(layer, f"{n}_l0{suffix}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    given, kept = part["weight_ih"] @ x + part["bias_ih"], part["weight_hh"] @ cells[0] + part["bias_hh"]
    if isinstance(layer, torch.nn.LSTM):
        i, f, g, o = (given + kept).chunk(4)
        c = torch.sigmoid(f) * cells[1] + torch.sigmoid(i) * torch.tanh(g)
        return [torch.sigmoid(o) * torch.tanh(c), c]
    (ri, zi, ni), (rh, zh, nh) = given.chunk(3), kept.chunk(3)
    r, z = torch.sigmoid(ri + rh), torch.sigmoid(zi + zh)
    return [(1 - z) * torch.tanh(ni + r * nh) + z * cells[0]]


def explicit_model(model: Recurrent, source: list[int], target: list[int]) -> list[Tensor]:
    """Outputs (D,) of one sentence, without batch or padding, cell by cell."""
    config, width = model.config, model.config.width
    parts = 2 if config.cell == "lstm" else 1

    def zeros() -> list[Tensor]:
        return [torch.zeros(width, dtype=torch.float64) for _ in range(parts)]

    scale = width**0.5 if config.scale_embeddings else 1.0
    length, window = len(source), config.attention.window
    if config.attention.pad_source:
        source = [PAD] * window + source + [PAD] * (window + 1)
    memory, firsts = [model.source_embedding.pieces.weight[i] * scale for i in source], []
    for number, layer in enumerate(model.encoder.layers):
        ways = []
        for suffix in ("", "_reverse")[: 1 + config.bidirectional]:
            cells, outputs = zeros(), []
            for x in memory if not suffix else memory[::-1]:
                cells = explicit_cell(layer, x, cells, suffix)
                outputs.append(cells[0])
            ways.append((outputs if not suffix else outputs[::-1], cells))
        before, memory = memory, [torch.cat(each) for each in zip(*(outputs for outputs, _ in ways), strict=True)]
        if config.residual and number:
            memory = [a + b for a, b in zip(before, memory, strict=True)]
        firsts.append([torch.cat([cells[p] for _, cells in ways]) for p in range(parts)])
    last = firsts[-1][0]
    if config.bidirectional:
        bridge = iter(model.bridge)
        firsts = [[torch.tanh(next(bridge)(part)) for part in cells] for cells in firsts]
    outputs, output, context = [], torch.zeros(width, dtype=torch.float64), last
    for t, word in enumerate(target):
        x = model.target_embedding.pieces.weight[word] * scale
        if config.attention.kind == "none":
            x = torch.cat([x, last])
        elif config.input_feeding:
            x = torch.cat([x, output])
        elif config.context_feeding:
            x = torch.cat([x, context.detach()])
        for number, layer in enumerate(model.decoder.layers):
            firsts[number] = explicit_cell(layer, x, firsts[number])
            x = x + firsts[number][0] if config.residual and number else firsts[number][0]
        output = x
        if config.attention.kind != "none":
            weights = explicit(model.alignment, x, torch.stack(memory), length, t)
            context = sum((w * m for w, m in zip(weights, memory, strict=True)), torch.zeros(()))
            output = model.combine(torch.cat([x, context]))
            output = torch.tanh(output) if config.activation == "tanh" else output.clamp(min=0)
        outputs.append(output)
    return outputs


VARIANTS: list[dict[str, Any]] = [
    {"attention": {"kind": "none"}},
    {"attention": {"kind": "none"}, "cell": "gru", "bidirectional": True},
    {"attention": {"kind": "local-p", "score": "dot", "window": 2}},
    {"attention": {"kind": "local-m", "score": "general", "window": 1}, "bidirectional": True, "residual": True},
    {"attention": {"kind": "global", "score": "additive"}, "cell": "gru", "input_feeding": True, "bidirectional": True},
    {"attention": {"kind": "global", "score": "dot"}, "input_feeding": True, "tied": "all", "residual": True},
    {"attention": {"kind": "global"}, "context_feeding": True, "cell": "gru", "bidirectional": True},
    {
        "attention": {"kind": "local-p", "score": "dot", "window": 2, "centre_width": 5, "pad_source": True},
        "context_feeding": True, "activation": "relu", "scale_embeddings": False, "output_bias": True,
        "teacher_forcing_draw": "batch",
    },
]  # fmt: skip


@pytest.mark.parametrize("options", VARIANTS)
def test_the_whole_model_equals_explicit_loops_and_padding_changes_nothing(options: dict[str, Any]) -> None:
    model = make(**options)
    found = model(SOURCE, TARGET)
    for b, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        words = target[target != PAD].tolist()
        expected = explicit_model(model, source[source != PAD].tolist(), words)
        torch.testing.assert_close(found[b, : len(words)], torch.stack(expected), rtol=0, atol=1e-10)
        weighting = torch.randn_like(found[b, : len(words)])
        used = [p for name, p in model.named_parameters() if not name.startswith("projection")]
        ours, theirs = (
            torch.autograd.grad((outputs * weighting).sum(), used, allow_unused=True, retain_graph=True)
            for outputs in (found[b, : len(words)], torch.stack(expected))
        )
        for parameter, a, c in zip(used, ours, theirs, strict=True):
            a, c = (torch.zeros_like(parameter) if each is None else each.clone() for each in (a, c))
            if parameter.shape[0] in (12, 13) and parameter.ndim == 2 and parameter.shape[1] == model.config.width:
                a[PAD], c[PAD] = 0.0, 0.0  # the embedding of padding is not trained
            torch.testing.assert_close(a, c, rtol=0, atol=1e-10)


@pytest.mark.parametrize("laid_out", [False, True])
@pytest.mark.parametrize("options", VARIANTS)
def test_steps_of_search_give_what_teacher_forcing_gives(options: dict[str, Any], laid_out: bool) -> None:
    model = make(**options).eval()
    expected = torch.log_softmax(model.projection(model(SOURCE, TARGET)).float(), -1)
    state = (model.lay_out_for_search() if laid_out else model).start(SOURCE)
    for t in range(TARGET.shape[1]):
        found, state = model.step(state, TARGET[:, t])
        torch.testing.assert_close(found, expected[:, t], rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("decoding", [{"beam": 1}, {"beam": 12, "nbest": 12}, {"beam": 1, "sampling": True}])
def test_a_model_laid_out_for_search_translates_alike_and_never_writes_what_its_vocabulary_lacks(
    decoding: dict[str, Any],
) -> None:
    model, config = make(3).eval(), Decoding(length_extra=6, **decoding)
    expected = search(model, SOURCE, config, IDS)
    found = search(model.lay_out_for_search(), SOURCE, config, IDS)
    assert model.projection.weight.shape == (16, 8)  # of 13 pieces
    for before, after in zip(expected, found, strict=True):
        assert [h.ids for h in after] == [h.ids for h in before]
        assert [h.score for h in after] == pytest.approx([h.score for h in before], abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS)
def test_a_sentence_is_translated_alike_in_any_company(options: dict[str, Any]) -> None:
    model, config = make(3, **options).eval(), Decoding(beam=3, nbest=2, length_extra=6)
    together = search(model, SOURCE, config, IDS)
    alone = [search(model, row[row != PAD][None], config, IDS)[0] for row in SOURCE]
    assert [[h.ids for h in hs] for hs in together] == [[h.ids for h in hs] for hs in alone]
    for source, hypotheses in zip(SOURCE, together, strict=True):
        for h in hypotheses:  # scores are those of teacher forcing
            outputs = model(source[None], torch.tensor([[IDS.bos, *h.ids]]))
            log_probs = torch.log_softmax(model.projection(outputs[0]).float(), -1)
            assert h.log_probability == pytest.approx(
                float(sum(log_probs[t, i] for t, i in enumerate([*h.ids, IDS.eos]))), abs=1e-4
            )


@pytest.mark.parametrize("options", VARIANTS)
def test_teacher_forcing_is_a_chance_for_each_step(options: dict[str, Any]) -> None:
    """Never the model's own word equals full forcing; always its own equals greedy decoding."""
    full, never = make(**options).train(), make(**options, teacher_forcing=0.0).train()
    steps = make(**options, teacher_forcing=0.999999).train()
    torch.manual_seed(1)
    torch.testing.assert_close(steps(SOURCE, TARGET), full(SOURCE, TARGET), rtol=0, atol=1e-12)
    words, state = TARGET[:, 0], never.start(SOURCE)
    greedy = []
    for _ in range(TARGET.shape[1]):
        log_probs, state = never.step(state, words)
        words = log_probs.argmax(-1)
        greedy.append(log_probs)
    found = torch.log_softmax(never.projection(never(SOURCE, TARGET)).float(), -1)
    torch.testing.assert_close(found, torch.stack(greedy, 1), rtol=0, atol=1e-5)
    never.eval()
    torch.testing.assert_close(never(SOURCE, TARGET), full(SOURCE, TARGET), rtol=0, atol=1e-12)


def test_half_forced_steps_differ_by_sentence_and_repeat_with_the_seed() -> None:
    model = make(attention={"kind": "local-p", "score": "dot"}, teacher_forcing=0.5).train()
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(model(SOURCE, TARGET))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_one_draw_of_teacher_forcing_for_the_batch() -> None:
    """A batch of the same sentence three times: all three read the same words, whatever is drawn."""
    options = {"attention": {"kind": "local-p", "score": "dot"}, "context_feeding": True, "teacher_forcing": 0.5}
    same, apart = (make(**options, teacher_forcing_draw=draw).train() for draw in ("batch", "sentence"))
    source, target = SOURCE[:1].expand(3, -1), TARGET[:1].expand(3, -1)
    outputs = []
    for seed in range(5):
        torch.manual_seed(seed)
        outputs.append(same(source, target))
        torch.testing.assert_close(outputs[-1][0], outputs[-1][2], rtol=0, atol=1e-12)
    assert len({float(each.sum().detach()) for each in outputs}) > 1
    torch.manual_seed(0)
    found = apart(source, target)
    assert not torch.allclose(found[0], found[2])


def test_embeddings_without_a_scale_are_drawn_from_the_standard_normal_distribution() -> None:
    torch.manual_seed(1)
    settings = {"kind": "recurrent", "width": 64, "tied": "none", "dropout": 0.0, "scale_embeddings": False}
    model = Recurrent(RecurrentConfig.model_validate(settings), 500, 500, PAD)
    for embedding in (model.source_embedding, model.target_embedding):
        weight = embedding.pieces.weight
        assert weight.std().item() == pytest.approx(1, abs=0.02) and not weight[PAD].any()
        assert torch.equal(embedding(torch.tensor([[7]]))[0, 0], weight[7])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": {"kind": "global", "pad_source": True}}, "pad_source is for kind: local-p only"),
        ({"attention": {"kind": "none"}, "context_feeding": True}, "context_feeding: true needs an attention"),
        ({"input_feeding": True, "context_feeding": True}, "exclude each other"),
        ({"scale_embeddings": False, "tied": "all"}, "scale_embeddings: false needs tied: none"),
        ({"attention": {"kind": "none"}, "activation": "relu"}, "activation is of the attention's output"),
    ],
)
def test_keys_that_do_not_fit_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecurrentConfig.model_validate({"kind": "recurrent", "tied": "none"} | options)


def test_attention_weights_are_those_of_the_outputs() -> None:
    model = make(attention={"kind": "local-p", "score": "dot", "window": 2})
    weights = model.attentions(SOURCE, TARGET)["source"]
    assert weights.shape == (3, 1, 1, 6, 9)
    assert (weights[1, ..., 4:] == 0).all() and (weights.sum(-1) <= 1 + 1e-9).all()
    assert ((weights[0, 0, 0] > 0).sum(-1) <= 5).all()
    assert make(attention={"kind": "none"}).attentions(SOURCE, TARGET) == {}
    padded = make(attention={"kind": "local-p", "score": "dot", "window": 2, "pad_source": True})
    assert padded.attentions(SOURCE, TARGET)["source"].shape == (3, 1, 1, 6, 9)  # over the sentence alone


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A model of five known words that writes <unk> whatever it is given, and looks at the position it is at."""
    folder = tmp_path_factory.mktemp("unknown")
    lines = ["a b c d e", "b a"] * 20
    clean = write_clean(folder / "clean", {"train": lines, "valid": lines})
    learn(clean, folder / "subwords", "en-de", Subwords(kind="words", size=100, joint=False))
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    model = {
        "kind": "recurrent",
        "width": 8,
        "layers": 1,
        "attention": {"kind": "local-m", "window": 1},
        "tied": "none",
    }
    settings = Experiment.model_validate({"model": model, "training": {"updates": 1, "validation_bleu": False}})
    train(folder / "encoded", folder / "run", settings, 1, "cpu", 1, "copy/unknown")
    average(folder / "run", folder / "encoded", "last", folder / "model")
    return Translator.load(folder / "model", "cpu")


def test_an_unknown_word_becomes_the_source_word_looked_at(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    unk, a = translator.target.ids.unk, translator.target.encode(["a"])[0][0]

    def found(*_: object) -> list[list[Hypothesis]]:
        return [[Hypothesis([unk, a, unk], 0.0, 0.0)]]

    def looked(source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        assert source.shape == (1, 6) and target.tolist() == [[translator.target.ids.bos, unk, a, unk]]
        return {"source": torch.eye(6)[[3, 0, 1, 5]][None, None, None]}  # BOS zap b wow c EOS

    monkeypatch.setattr("nmt.translation.translator.search", found)
    monkeypatch.setattr(translator.model, "attentions", looked)
    line = ["zap b wow c"]
    assert translator.translate_clean(line, Decoding(beam=1))[0][0].text == "<unk> a <unk>"
    assert translator.translate_clean(line, Decoding(beam=1, replace_unknown=True))[0][0].text == "wow a zap"
    monkeypatch.setattr(type(translator.model), "longest", 6)
    line = ["zap b wow c cut off"]
    assert translator.translate_clean(line, Decoding(beam=1, replace_unknown=True))[0][0].text == "wow a zap"


@pytest.mark.parametrize(("key", "value"), [("replace_unknown", True), ("coverage_penalty", 0.2)])
def test_what_needs_attention_is_refused_before_a_search_without_it(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, key: str, value: float
) -> None:
    bare = translator.model.config.model_copy(update={"attention": AttentionConfig(kind="none")})
    monkeypatch.setattr(translator.model, "config", bare)
    monkeypatch.setattr("nmt.translation.translator.search", lambda *_: pytest.fail("a search began"))
    with pytest.raises(ConfigError, match=f"{key}: {str(value).lower()}: expected a model with attention, got one"):
        translator.translate_clean(["a"], Decoding.model_validate({key: value}))


def test_unknown_words_are_not_replaced_among_subwords(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.target, "whole_words", False)
    with pytest.raises(ConfigError, match="replace_unknown: true: expected a model of whole words, got subwords"):
        translator.translate_clean(["a"], Decoding(replace_unknown=True))


def test_attentions_of_a_translation_have_its_labels(translator: Translator) -> None:
    best = translator.translate_clean(["a b zap"], Decoding(beam=2))[0][0]
    found = translator.attentions("a b zap", best)
    assert found.source == ["<s>", "▁a", "▁b", "<unk>", "</s>"]
    assert found.target == ["<s>", *translator.target.pieces(best.ids), "</s>"]
    assert found.weights["source"].shape == (1, 1, len(found.target) - 1, 5)
