"""The order of batches: that of NumPy's own sort and of a loop by hand, in a few bytes a pair."""

import tracemalloc
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.data import batches, order
from nmt.data.batches import Parallel
from nmt.data.order import Batches, cut, sort_by
from nmt.system import arrays
from nmt.system.errors import DataError
from nmt.system.files import write_json


def encoded(folder: Path, source: list[int], target: list[int]) -> Path:
    """An encoded split whose sentences have so many pieces."""
    for side, lengths in (("source", source), ("target", target)):
        np.save(folder / f"train.{side}.npy", np.full(sum(lengths), 5, np.uint16))
        np.save(folder / f"train.{side}.offsets.npy", np.cumsum([0, *lengths]))
    write_json(
        folder / "meta.json",
        {
            "languages": "en-de", "splits": {"train": {"sentences": len(source)}}, "ids": {"pad": 0, "unk": 1, "bos": 2,
            "eos": 3}, "vocabulary": {"source": 9, "target": 9}, "cleaning": {}, "subwords": {"subwords": {}},
        },
    )  # fmt: skip
    return folder


def before(data: Parallel, lengths: list[tuple[int, int]], seed: int, size: int) -> list[list[int]]:
    """The batches as they were made from 64-bit arrays: a permutation, NumPy's sort, and a cut by a loop."""
    random = np.random.default_rng((seed, 4))
    permuted = random.permutation(np.array(data.indices, np.int64))
    target, source = (np.array([lengths[i][side] for i in permuted.tolist()]) for side in (1, 0))
    permuted = permuted[np.lexsort((source, target))]
    batches, batch = list[list[int]](), list[int]()
    for i in permuted.tolist():
        if batch and max(max(lengths[j]) + 2 for j in [*batch, i]) * (len(batch) + 1) > size:
            batches.append(batch)
            batch = []
        batch.append(i)
    batches.append(batch)
    return [batches[i] for i in random.permutation(len(batches))]


@pytest.mark.parametrize("longest", [None, 40])
@pytest.mark.parametrize("top", [60, 400, 70_000])
def test_the_order_is_that_of_wide_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int | None, top: int
) -> None:
    monkeypatch.setattr(order, "BLOCK", 37)
    random = np.random.default_rng(top)
    pairs = [(int(a), int(b)) for a, b in random.integers(0, 50, (300, 2))]
    pairs[100] = (3, top)
    folder = encoded(tmp_path, *(list(side) for side in zip(*pairs, strict=True)))
    data = Parallel(folder, "train", longest)
    found = data.batches("150 tokens", (2, 4))
    assert [batch.tolist() for batch in found] == before(data, pairs, 2, 150)
    assert data.source.lengths.tolist() == [a + 2 for a, _ in pairs]
    batch = data.batch(np.array([7, 3]))
    assert batch.pieces == data.pieces(np.array([7, 3])) == pairs[7][1] + pairs[3][1] + 2
    assert batch.source.shape == (2, max(pairs[7][0], pairs[3][0]) + 2)


@pytest.mark.parametrize("longest", [None, 40])
def test_a_large_corpus_is_sorted_and_then_shuffled_within_equal_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int | None
) -> None:
    pairs = [(int(a), int(b)) for a, b in np.random.default_rng(3).integers(0, 50, (700, 2)) // [12, 9]]
    pairs[100] = (3, 45)
    folder = encoded(tmp_path, *(list(side) for side in zip(*pairs, strict=True)))
    small = Parallel(folder, "train", longest)
    rows = [small.batch(batch) for batch in small.batches("150 tokens")]
    for module, name, value in (
        (arrays, "HELD", 0),
        (batches, "HELD", 0),
        (order, "BLOCK", 37),
        (batches, "BLOCK", 37),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(arrays, "TAKEN", 5)
    data = Parallel(folder, "train", longest)
    assert data.indices.tolist() == small.indices.tolist() and isinstance(data.indices, np.memmap)
    for batch, row in zip(data.batches("150 tokens"), rows, strict=True):
        assert all(map(torch.equal, data.batch(batch).tensors(), row.tensors()))

    random = np.random.default_rng((2, 4))
    by_length = sorted(small.indices.tolist(), key=lambda i: (pairs[i][1], pairs[i][0]))
    runs = [list(run) for _, run in groupby(by_length, key=lambda i: pairs[i])]
    expected = [i for run in runs for i in random.permutation(np.array(run, np.int32)).tolist()]
    found = data.batches("150 tokens", (2, 4))
    taken = random.permutation(len(found))
    assert [i for place in np.argsort(taken) for i in found[int(place)].tolist()] == expected
    assert max(map(len, runs)) > 20 and expected != by_length
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in data.batches("150 tokens", (2, 4))]
    assert [batch.tolist() for batch in found] != [batch.tolist() for batch in data.batches("150 tokens", (2, 5))]


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_sorting_keeps_the_order_of_equal_keys(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(order, "BLOCK", block)
    keys, given = np.array([3, 0, 3, 1, 250, 0], np.uint8), np.array([5, 4, 2, 0, 1, 3, 2], np.int32)
    assert sort_by(keys, given).tolist() == sorted(given.tolist(), key=lambda i: int(keys[i]))
    assert sort_by(keys, given).dtype == np.int32 and sort_by(keys, given[:0]).tolist() == []


def test_batches_are_a_sequence() -> None:
    batches = cut(np.arange(10, 17), iter([np.arange(7)]), 3, "sentences")
    assert [batch.tolist() for batch in batches] == [[10, 11, 12], [13, 14, 15], [16]]
    assert batches[-1].tolist() == [16] and [batch.tolist() for batch in batches[1:]] == [[13, 14, 15], [16]]
    assert len(batches[::2]) == 2 and isinstance(batches, Batches) and np.concatenate(batches).tolist()[-1] == 16
    with pytest.raises(IndexError):
        batches[3]


@pytest.mark.integration
def test_an_epoch_takes_few_bytes_a_pair(tmp_path: Path) -> None:
    count = 600_000
    data = Parallel(encoded(tmp_path, [9] * count, [8] * count), "train")
    tracemalloc.start()
    batches = data.batches("4096 tokens", (1, 0))
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 5 * count and peak < 9 * count + 40 * order.BLOCK and len(batches) > 100


def test_offsets_that_fall_are_refused(tmp_path: Path) -> None:
    encoded(tmp_path, [2, 3], [1, 1])
    np.save(tmp_path / "train.target.offsets.npy", np.array([0, 3, 2]))
    with pytest.raises(DataError, match=r"train\.target\.offsets\.npy: expected offsets from 0 that never fall"):
        Parallel(tmp_path, "train")
