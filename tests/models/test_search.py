"""Beam search against brute force over every possible output of a tiny model."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.config.data import SpecialIds
from nmt.config.decoding import Decoding
from nmt.config.models import TransformerConfig
from nmt.models.search import Ensemble, greatest, search, top
from nmt.models.transformer import Transformer

IDS = SpecialIds()
VOCABULARY = 7


def tiny(seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(layers=1, width=8, ffn=16, heads=2, dropout=0.0, max_positions=16, tied="none")
    model = Transformer(config, VOCABULARY, VOCABULARY, IDS.pad).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


SOURCES = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0], [2, 5, 4, 3]])


def log_probability(model: Transformer, source: Tensor, output: list[int]) -> float:
    """Of a whole output, by teacher forcing: none of the code of search."""
    hidden = model(source[None], torch.tensor([[IDS.bos, *output]]))
    log_probs = torch.log_softmax(model.projection(hidden[0]).float(), -1)
    return float(sum(log_probs[t, piece] for t, piece in enumerate([*output, IDS.eos])))


def brute_force(model: Transformer, source: Tensor, longest: int, penalty: float) -> list[tuple[float, list[int]]]:
    pieces = [p for p in range(VOCABULARY) if p not in (IDS.pad, IDS.bos, IDS.eos)]
    outputs = [list(o) for n in range(longest + 1) for o in itertools.product(pieces, repeat=n)]
    scored = [(log_probability(model, source, o) / (len(o) + 1) ** penalty, o) for o in outputs]
    return sorted(scored, reverse=True)


@pytest.mark.integration
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(penalty: float) -> None:
    model = tiny()
    config = Decoding(beam=400, nbest=5, length_penalty=penalty, length_factor=1e-9, length_extra=4)
    with torch.inference_mode():
        found = search(model, SOURCES, config, IDS)
        for source, hypotheses in zip(SOURCES, found, strict=True):
            expected = brute_force(model, source[source != IDS.pad], 4, penalty)[:5]
            assert [h.ids for h in hypotheses] == [ids for _, ids in expected]
            assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_small_beams_equal_a_plain_search_one_sentence_at_a_time(beam: int) -> None:
    for seed in range(5):
        model = tiny(seed)
        config = Decoding(beam=beam, length_factor=1e-9, length_extra=6)
        found = search(model, SOURCES, config, IDS)
        for source, hypotheses in zip(SOURCES, found, strict=True):
            assert hypotheses[0].ids == plain_beam(model, source[source != IDS.pad], beam, 6)


@torch.inference_mode()
def plain_beam(model: Transformer, source: Tensor, beam: int, longest: int) -> list[int]:
    """Beam search over Python lists, without batches or cache."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    while live and not (len(done) >= beam and live[0][0] / len(live[0][1]) <= max(done)[0]):
        extended = []
        for score, prefix in live:
            hidden = model(source[None], torch.tensor([[IDS.bos, *prefix]]))
            log_probs = torch.log_softmax(model.projection(hidden[0, -1]).float(), -1)
            pieces = (
                [IDS.eos] if len(prefix) == longest else [p for p in range(VOCABULARY) if p not in (IDS.pad, IDS.bos)]
            )
            extended += [(score + float(log_probs[p]), [*prefix, p]) for p in pieces]
        extended.sort(key=lambda e: -e[0])
        done += [(score / len(ids), ids[:-1]) for score, ids in extended[:beam] if ids[-1] == IDS.eos]
        live = [(score, ids) for score, ids in extended[: 2 * beam] if ids[-1] != IDS.eos][:beam]
    return max(done)[1]


@pytest.mark.integration
@pytest.mark.parametrize(("penalty", "reward"), [(1, 0), (0, 0), (0.6, -0.5), (-1, 0.5), (0, 0.5), (2, 1)])
def test_sentences_whose_best_is_certain_are_done_early(
    penalty: float, reward: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the bound, search goes on until ``beam`` hypotheses are finished, and finds the same."""
    models = [tiny(seed) for seed in range(20)]
    config = Decoding(beam=3, nbest=2, length_penalty=penalty, length_reward=reward, length_extra=6)

    def found_and_steps() -> tuple[list[Any], int]:
        steps = 0

        def count(step: Callable[..., Any], *arguments: Any) -> Any:
            nonlocal steps
            steps += 1
            return step(*arguments)

        for model in models:
            monkeypatch.setattr(model, "step", functools.partial(count, type(model).step.__get__(model)))
        rows = [(model, row[row != IDS.pad][None]) for model in models for row in SOURCES]
        return [search(model, row, config, IDS) for model, row in rows], steps

    early, few = found_and_steps()
    monkeypatch.setattr("nmt.models.search._Beams._bound", lambda *_: float("inf"))
    late, many = found_and_steps()
    assert early == late
    assert few < many if (penalty, reward) == (0, 0) else few <= many


def test_a_sentence_is_translated_alike_in_any_company() -> None:
    model, config = tiny(3), Decoding(beam=3, length_extra=6)
    together = search(model, SOURCES, config, IDS)
    alone = [search(model, row[row != IDS.pad][None], config, IDS)[0] for row in SOURCES]
    assert [[h.ids for h in hs] for hs in together] == [[h.ids for h in hs] for hs in alone]


def test_an_ensemble_averages_probabilities() -> None:
    first, second = tiny(1), tiny(2)
    config = Decoding(beam=400, length_penalty=0, length_factor=1e-9, length_extra=2)
    best = search(Ensemble([first, second]), SOURCES[:1], config, IDS)[0][0]
    same = search(Ensemble([first, first]), SOURCES, config, IDS)
    assert [h[0].ids for h in same] == [h[0].ids for h in search(first, SOURCES, config, IDS)]
    with torch.inference_mode():
        steps = [
            torch.softmax(m.projection(m(SOURCES[:1], torch.tensor([[IDS.bos, *best.ids]])))[0], -1)
            for m in (first, second)
        ]
        mean = sum(steps) / 2
        expected = sum(float(mean[t, p].log()) for t, p in enumerate([*best.ids, IDS.eos]))
    assert best.log_probability == pytest.approx(expected, abs=1e-5)


@dataclass
class Endless:
    """A decoder that never wants to end."""

    longest: int = 8

    def start(self, source: Tensor, images: Tensor | None = None) -> Tensor:
        return source

    def step(self, state: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.zeros(len(last), VOCABULARY)
        scores[:, 5] = 30
        return scores.log_softmax(-1), state

    def reorder(self, state: Tensor, rows: Tensor) -> Tensor:
        return state

    def keep(self, state: Tensor, sentences: Tensor) -> Tensor:
        return state[sentences]


def test_length_limits_hold() -> None:
    found = search(Endless(), SOURCES, Decoding(beam=1, length_factor=1, length_extra=1), IDS)
    assert [len(h[0].ids) for h in found] == [3, 2, 3]
    assert len(search(Endless(), SOURCES, Decoding(beam=1, length_factor=9), IDS)[0][0].ids) == 6  # the model's own
    wide = search(Endless(), SOURCES, Decoding(beam=4, nbest=4, length_factor=1, length_extra=1), IDS)
    assert all(len(h.ids) <= limit for hs, limit in zip(wide, [3, 2, 3], strict=True) for h in hs)


def test_sampling_draws_pieces_as_often_as_the_model_finds_them_likely() -> None:
    model, config, many = tiny(), Decoding(beam=1, sampling=True, length_factor=1e-9, length_extra=4), 4000
    batch = SOURCES[:1].expand(many, -1)
    found = [hypothesis for (hypothesis,) in search(model, batch, config, IDS)]
    counts = torch.bincount(torch.tensor([(h.ids or [IDS.eos])[0] for h in found]), minlength=VOCABULARY)
    with torch.inference_mode():
        log_probs = model.projection(model(SOURCES[:1], torch.tensor([[IDS.bos]]))[0, 0]).float()
        log_probs[[IDS.pad, IDS.bos]] = -torch.inf
        torch.testing.assert_close(counts / many, torch.softmax(log_probs, -1), atol=0.03, rtol=0)
        for hypothesis in found[:20]:
            expected = log_probability(model, SOURCES[0], hypothesis.ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)
    assert found == [hypothesis for (hypothesis,) in search(model, batch, config, IDS)]
    assert len({tuple(h.ids) for h in found}) > 10
    with pytest.raises(ValueError, match="sampling: true needs beam: 1"):
        Decoding(sampling=True)


@pytest.mark.parametrize(("vocabulary", "width"), [(1000, 5), (1024, 5), (700, 1), (3, 2)])
@pytest.mark.parametrize("apart", [0, 9])
def test_top_is_what_sorting_everything_gives(vocabulary: int, width: int, apart: int) -> None:
    torch.manual_seed(1)
    log_probs = torch.randn(64 * width, vocabulary + apart)[:, :vocabulary]  # as of a vocabulary that was filled up
    scores = torch.randn(64, width)
    log_probs[0, vocabulary - 1] = scores[1, 0] = 9.0  # the last column, which may be in no whole block
    log_probs[:, 1] = -torch.inf  # as forbidden pieces are
    count = 2 * width
    expected, places = (scores[..., None] + log_probs.reshape(64, width, -1)).flatten(1).sort(1, descending=True)
    values, columns = top(log_probs, scores, count)
    torch.testing.assert_close(values, expected[:, :count])
    assert columns.tolist() == places[:, :count].tolist()


@pytest.mark.parametrize(("rows", "vocabulary"), [(700, 100), (700, 50), (64, 1024), (64, 1000), (3, 1000)])
@pytest.mark.parametrize("apart", [0, 9])
def test_greatest_is_the_first_of_the_greatest_of_each_row(rows: int, vocabulary: int, apart: int) -> None:
    torch.manual_seed(1)
    whole = torch.randint(0, vocabulary // 5, (rows, vocabulary + apart)).float()  # several of a row are equal
    log_probs = whole[:, :vocabulary]  # as of a vocabulary that was filled up
    log_probs[0, vocabulary - 1] = vocabulary  # the last column, which may be in no whole block
    log_probs[1, :-1] = -torch.inf  # as where an end is forced
    values, columns = greatest(log_probs)
    places = [row.index(max(row)) for row in log_probs.tolist()]
    assert columns.tolist() == [[place] for place in places]
    assert values.tolist() == [[row[place]] for row, place in zip(log_probs.tolist(), places, strict=True)]


EVERYTHING: dict[str, Any] = {"beam": 100, "nbest": 5, "length_factor": 1e-9, "length_extra": 3}


@functools.cache
def all_outputs(sentence: int) -> list[tuple[float, float, list[int]]]:
    """Score, coverage and ids of every output of at most 3 pieces."""
    model, source = tiny(), SOURCES[sentence][SOURCES[sentence] != IDS.pad]
    return [(score, coverage(model, source, o), o) for score, o in brute_force(model, source, 3, 1.0)]


def coverage(model: Transformer, source: Tensor, output: list[int]) -> float:
    """Equation 14 of Wu and others (2016), by teacher forcing."""
    weights = model.attentions(source[None], torch.tensor([[IDS.bos, *output]]))["source"][0, -1].mean(0).tolist()
    sums = [sum(row[s] for row in weights) for s in range(1, len(source) - 1)]
    return float(sum(torch.tensor(min(total, 1.0)).log() for total in sums))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"min_length": 3}, lambda output: len(output) >= 3),
        ({"no_repeat_ngram": 1}, lambda output: len(set(output)) == len(output)),
        ({"no_repeat_ngram": 2}, lambda output: len(set(itertools.pairwise(output))) == max(len(output) - 1, 0)),
        ({"prefix": "6 4"}, lambda output: output[:2] == [6, 4]),
        ({"coverage_penalty": 2.0}, lambda output: True),
        ({"length_reward": 1.5}, lambda output: True),
        ({"prefix": "5", "min_length": 2, "no_repeat_ngram": 1, "coverage_penalty": 0.5},
         lambda output: output[:1] == [5] and len(output) >= 2 and len(set(output)) == len(output)),
    ],
    ids=["minimum length", "no word twice", "no pair twice", "prefix", "coverage", "length reward", "together"],
)  # fmt: skip
@torch.inference_mode()
def test_options_find_what_brute_force_finds(options: dict[str, Any], allowed: Callable[[list[int]], bool]) -> None:
    prefix, penalty = [int(piece) for piece in options.get("prefix", "").split()], options.get("coverage_penalty", 0.0)
    reward = options.get("length_reward", 0.0)
    found = search(tiny(), SOURCES, Decoding(**EVERYTHING, **options), IDS, prefix=prefix)
    for sentence, hypotheses in enumerate(found):
        outputs = [(score + penalty * cover + reward * (len(o) + 1), o) for score, cover, o in all_outputs(sentence)]
        expected = sorted((output for output in outputs if allowed(output[1])), reverse=True)[:5]
        assert [h.ids for h in hypotheses] == [ids for _, ids in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_an_end_is_left_where_every_piece_would_repeat() -> None:
    for options in ({"beam": 3}, {"beam": 1}, {"beam": 1, "sampling": True}):
        config = Decoding(no_repeat_ngram=1, min_length=12, **options)
        for hypotheses in search(tiny(), SOURCES, config, IDS):
            assert sorted(hypotheses[0].ids) == [1, 4, 5, 6]  # all pieces but the special ones


def next_piece_distribution(temperature: float, top_k: int | None, top_p: float) -> Tensor:
    """The distribution of the first piece of `tiny`'s translation of the first source, by its definition."""
    model = tiny()
    log_probs = model.projection(model(SOURCES[:1], torch.tensor([[IDS.bos]]))[0, 0]).double()
    log_probs[[IDS.pad, IDS.bos]] = -torch.inf
    whole = torch.softmax(log_probs / temperature, -1)
    kept = torch.zeros(VOCABULARY, dtype=torch.float64)
    likeliest = whole.argsort(descending=True).tolist()[:top_k]
    total = whole[likeliest].sum()
    for piece in likeliest:
        if kept.sum() < top_p * total:
            kept[piece] = whole[piece]
    return kept / kept.sum()


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.8}, {"top_k": 99}, {"top_p": 1e-6},
     {"top_p": 5e-324}, {"temperature": 2.0, "top_k": 4, "top_p": 0.7}],
    ids=str,
)  # fmt: skip
@torch.inference_mode()
def test_samples_pass_a_chi_square_test(options: dict[str, Any]) -> None:
    from scipy.stats import chisquare

    config = Decoding(beam=1, sampling=True, samples=1000, nbest=1000, length_extra=1, length_factor=1e-9, **options)
    first = [(h.ids or [IDS.eos])[0] for hs in search(tiny(), SOURCES[:1].expand(4, -1), config, IDS) for h in hs]
    counts = torch.bincount(torch.tensor(first), minlength=VOCABULARY)
    arguments: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": 1.0} | options
    expected = next_piece_distribution(**arguments)
    drawn = expected > 0
    assert len(first) == 4000 and not counts[~drawn].any()
    if drawn.sum() > 1:
        assert chisquare(counts[drawn], 4000 * expected[drawn]).pvalue > 0.001


@torch.inference_mode()
def test_samples_of_a_sentence_are_independent_and_the_seed_changes_them() -> None:
    config = Decoding(beam=1, sampling=True, samples=50, nbest=50, length_extra=4)
    found = search(tiny(), SOURCES, config, IDS)
    assert [len(hs) for hs in found] == [50, 50, 50] and all(len({tuple(h.ids) for h in hs}) > 4 for hs in found)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert [h.score for h in hypotheses] == sorted([h.score for h in hypotheses], reverse=True)
        for h in hypotheses[:3]:
            assert h.log_probability == pytest.approx(log_probability(tiny(), source[source != 0], h.ids), abs=1e-4)
    assert search(tiny(), SOURCES, config, IDS) == found
    assert search(tiny(), SOURCES, config.model_copy(update={"seed": 1}), IDS) != found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "greater than or equal to 0.001"),
        ({"temperature": float("nan")}, "finite number"),
        ({"top_p": 0.0}, "greater than 0"),
        ({"sampling": False, "top_k": 3}, "top_k needs sampling: true, got false"),
        ({"sampling": False, "samples": 3, "mbr": "chrf"}, "samples needs sampling: true, got false"),
        ({"mbr": "chrf"}, "it needs samples: 2 or more, got 1"),
        ({"beam": 5}, "sampling: true needs beam: 1, got 5"),
        ({"coverage_penalty": 0.2}, "it needs beam: 2 or more, got 1"),
        ({"samples": 3, "nbest": 4}, "nbest must not exceed samples, got 4 and 3"),
    ],
    ids=str,
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decoding(**{"beam": 1, "sampling": True, **options})
