"""Search for a single sentence: folded attention against teacher forcing, and greedy search against the general one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from nmt.config.data import SpecialIds
from nmt.config.decoding import Decoding
from nmt.config.models import ModelConfig
from nmt.models import search as module
from nmt.models.base import TranslationModel
from nmt.models.build import build
from nmt.models.incremental import FoldedSource, Source
from nmt.models.search import Ensemble, search

IDS = SpecialIds()
SOURCE = torch.tensor([[2, 4, 9, 5, 7, 3]])
PADDED = torch.tensor([[2, 4, 9, 5, 7, 3, 0]])  # as when a longer sentence left the batch
TOGETHER = {"normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 2}
MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {"kind": "transformer"},
    "pre-norm, together": {"kind": "transformer", "norm": "pre"} | TOGETHER,
    "bare": {"kind": "transformer", "attention_output": False, "attention_bias": False},
    "learned positions, no bias": {"kind": "transformer", "positions": "learned", "attention_bias": False},
    "context": {"kind": "transformer", "context": "gru"},
    "queries": {"kind": "multimodal", "fusion": "queries"},
    "gated": {"kind": "multimodal", "fusion": "gated"},
    "recurrent": {"kind": "recurrent", "cell": "gru", "attention": {"kind": "global"}},
    "local attention": {"kind": "recurrent", "attention": {"kind": "local-p", "window": 2}},
    "no attention": {"kind": "recurrent", "attention": {"kind": "none"}},
}
TRANSFORMERS = [name for name, options in MODELS.items() if options["kind"] != "recurrent"]


def make(name: str, seed: int = 0) -> TranslationModel:
    options = MODELS[name]
    sizes: dict[str, Any] = {"layers": 2, "width": 48, "max_positions": 40, "dropout": 0.0}
    if options["kind"] == "recurrent":
        sizes = {"layers": 1, "width": 12, "max_positions": 40, "dropout": 0.0}
    if options["kind"] == "multimodal":
        sizes |= {"regions": 3, "channels": 5}
    if options["kind"] != "recurrent":
        sizes |= {"ffn": 24, "heads": 4, "tied": "none"}
    torch.manual_seed(seed)
    model = build(TypeAdapter(ModelConfig).validate_python(sizes | options), 11, 13, IDS.pad).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.requires_grad_(False)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_folded_attention_equals_teacher_forcing(name: str) -> None:
    model = make(name).double()
    target = torch.randint(4, 13, (4, 20))
    target[:, 0] = target[0, 0]  # the sentence has one row at first
    for source in (SOURCE, PADDED):
        whole = torch.log_softmax(model.projection(model(source.expand(4, -1), target)).float(), -1)
        first, state = model.step(model.start(source), target[:1, 0])
        assert all(isinstance(part, FoldedSource) for part in state.sources)
        torch.testing.assert_close(first, whole[:1, 0], rtol=0, atol=1e-5)
        zeros = torch.zeros(4, dtype=torch.long)
        state = model.reorder(model.keep(state, zeros), zeros)  # four samples of it
        for t in range(1, 20):
            log_probs, state = model.step(state, target[:, t])
            torch.testing.assert_close(log_probs, whole[:, t], rtol=0, atol=1e-5)


def test_long_or_several_sentences_are_not_folded() -> None:
    model = make("post-norm")
    long = torch.tensor([[2, *[4] * 20, 3]])
    for source in (long, SOURCE.expand(2, -1)):
        assert all(isinstance(part, Source) for part in model.start(source).sources)


def both(decoder: Any, source: Tensor, config: Decoding, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Search alone, by the shortcut, and twice in one batch, where both sentences end at the same step."""
    [alone] = search(decoder, source, config, IDS, **options)
    for general in search(decoder, source.expand(2, -1), config, IDS, **options):
        assert len(alone) == len(general) == 1
        yield alone[0], general[0]


@pytest.mark.integration
@pytest.mark.parametrize("name", MODELS)
def test_greedy_search_for_one_sentence_equals_the_general_search(name: str) -> None:
    lengths = set()
    for seed in range(2):
        model = make(name, seed)
        ensemble = Ensemble([model, make(name, seed + 10)])
        for decoder, extra, prefix in ((model, 9, ()), (model, 0, (5, 6)), (ensemble, 9, ())):
            config = Decoding(beam=1, length_factor=1, length_extra=extra, length_penalty=0.7, length_reward=0.1)
            for source in (SOURCE, PADDED):
                for alone, general in both(decoder, source, config, prefix=prefix):
                    assert alone.ids == general.ids
                    assert alone.score == pytest.approx(general.score, abs=1e-5)
                    assert alone.log_probability == pytest.approx(general.log_probability, abs=1e-5)
                    lengths.add(len(alone.ids))
    assert len(lengths) > 1  # by EOS and by the limit, which differ


def test_greedy_search_for_one_sentence_breaks_ties_as_the_general_search() -> None:
    model = make("post-norm")
    for weights in (torch.zeros(13), torch.arange(13) // 4 * 1.0):  # all pieces tie; the last ones tie
        nn.init.zeros_(model.projection.weight)
        model.projection.bias = nn.Parameter(weights.clone(), requires_grad=False)
        for alone, general in both(model, SOURCE, Decoding(beam=1)):
            assert alone.ids == general.ids
            assert len(set(alone.ids)) == 1
            assert alone.score == pytest.approx(general.score, abs=1e-5)


def test_broken_weights_give_no_hypothesis() -> None:
    model = make("post-norm")
    nn.init.constant_(model.projection.weight, torch.nan)
    assert search(model, SOURCE, Decoding(beam=1), IDS) == [[]]


def test_the_shortcut_steps_aside_for_other_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise AssertionError("the shortcut was taken")

    monkeypatch.setattr(module._Beams, "_finish_alone", refuse)
    model = make("post-norm")
    with pytest.raises(AssertionError, match="shortcut"):
        search(model, SOURCE, Decoding(beam=1), IDS)
    others: list[dict[str, Any]] = [
        {"beam": 2}, {"sampling": True}, {"sampling": True, "samples": 3}, {"min_length": 4}, {"no_repeat_ngram": 2},
    ]  # fmt: skip
    for options in others:
        [[best]] = search(model, SOURCE, Decoding.model_validate({"beam": 1} | options), IDS)
        assert len(best.ids) >= options.get("min_length", 0)
