"""The updates of a training: which batches each update takes, in which order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nmt.config.training import Training, check_mixing
from nmt.data.batches import Batch, Parallel
from nmt.data.sampling import weighted
from nmt.system.arrays import Indices
from nmt.system.errors import ConfigError
from nmt.system.files import digest
from nmt.system.workers import prefetch
from nmt.training.checkpoint import Progress
from nmt.training.distributed import Processes


@dataclass(frozen=True)
class Update:
    """The batches of one update, and the position in the epoch after it."""

    number: int  # counted from 1
    epoch: int  # finished epochs after it
    batch: int  # batches taken of the current epoch after it
    epoch_fraction: float  # epochs after it, with the fraction of the current one
    pieces: int  # target pieces to predict in all its batches, over all processes
    sentences: int  # the same for sentences
    seed: int  # for the dropout of this process
    batches: list[Batch]  # the sentences of this process; without a batch that has too few for all processes

    def advance(self, progress: Progress) -> None:
        """Move the progress to the end of this update."""
        progress.update, progress.epoch, progress.batch = self.number, self.epoch, self.batch
        progress.epoch_fraction, progress.pieces = self.epoch_fraction, progress.pieces + self.pieces
        progress.valid_loss = progress.valid_bleu = None


class Updates:
    """All updates of a training. They depend on the seed alone, so that a training can resume at any of them.

    A change of the weights of ``training.mixing`` ends an epoch.
    """

    def __init__(self, data: Parallel, config: Training, seed: int, device: torch.device, processes: Processes) -> None:
        self.data = data
        self._config, self._seed, self._processes = config, seed, processes
        self._on_gpu = device.type == "cuda"
        self._changes = config.mixing_changes
        if config.mixing:
            _check_mixing(config, data)
        self.per_epoch = math.ceil(len(data.batches(config.batch)) / config.accumulate)
        limits = [config.updates, config.epochs and config.epochs * self.per_epoch]
        self.total = min(limit for limit in limits if limit is not None)  # unless patience ends the training before

    def describe_mixing(self) -> Iterator[str]:
        """Yield a line for each start of weights: the share of each part, and how often an epoch repeats it."""
        groups, total = self.data.groups, len(self.data.indices)
        for start in (0, *self._changes) if self._config.mixing else ():
            shares = weighted(groups, self._config.mixing_after(start))
            parts = (
                f"{name} {share:.1%} ({len(group):,} pairs, {share * total / len(group):.3g} times an epoch)"
                for (name, group), share in zip(groups.items(), shares, strict=True)
            )
            yield f"mixing after {start:,} updates: {', '.join(parts)}"

    def after(self, progress: Progress) -> Iterator[Update]:
        """Yield the updates after the progress; for a GPU, a thread prepares the next one."""
        updates = self._after(progress.update, progress.epoch, progress.batch)
        return prefetch(updates) if self._on_gpu else updates

    def _after(self, number: int, epoch: int, taken: int) -> Iterator[Update]:
        while number < self.total:
            weights, temperature = self._config.mixing_after(number), self._config.pair_temperature
            batches = self.data.batches(self._config.batch, (self._seed, epoch), temperature, weights)
            for first in range(taken, len(batches), self._config.accumulate):
                number += 1
                yield self._update(number, epoch, batches, first)
                if number == self.total:
                    return
                if number in self._changes:  # of the weights: they draw a new epoch
                    break
            epoch, taken = epoch + 1, 0

    def _update(self, number: int, epoch: int, batches: Sequence[Indices], first: int) -> Update:
        group = batches[first : first + self._config.accumulate]
        taken = first + len(group)
        epoch_ends = taken == len(batches) or number in self._changes
        shares = [share for share in map(self._processes.share, group) if len(share)]
        return Update(
            number=number,
            epoch=epoch + epoch_ends,
            batch=0 if epoch_ends else taken,
            epoch_fraction=epoch + (1 if epoch_ends else taken / len(batches)),
            pieces=sum(map(self.data.pieces, group)),
            sentences=sum(map(len, group)),
            seed=dropout_seed(self._seed, number, self._processes.rank),
            batches=[self._batch(share) for share in shares],
        )

    def _batch(self, indices: Indices) -> Batch:
        """Return the batch; for a GPU in pinned memory, so that the copy to the GPU can be asynchronous."""
        batch = self.data.batch(indices)
        return batch.map_tensors(torch.Tensor.pin_memory) if self._on_gpu else batch


def _check_mixing(config: Training, data: Parallel) -> None:
    """Raise ConfigError unless the weights are of the parts of the text; DataError unless all of them can be drawn."""
    groups = data.groups
    try:
        check_mixing(config.mixing, groups)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    for start in (0, *config.mixing_changes):
        weighted(groups, config.mixing_after(start))


def dropout_seed(seed: int, update: int, rank: int) -> int:
    """Return a generator seed that differs by all three arguments; that of rank 0 is that of a single process."""
    return int(digest([seed, "dropout", update, *([rank] if rank else [])]), 16)
