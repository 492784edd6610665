"""Checkpoints: directories that are whole or absent, verified when read, the training's state in the newest two."""

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn, optim

from nmt.system.errors import DataError
from nmt.system.files import UMASK, as_written, atomic_directory, digest, read_json, sha256, write_json
from nmt.training.distributed import Processes

WEIGHTS, OPTIMIZER, PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"
RESUMABLE = 2  # newest checkpoints that hold the optimiser's state: a damaged one has one before it


@dataclass
class Progress:
    """How far a training is; with the weights and the optimiser's state, all there is to resume from."""

    update: int = 0
    epoch: int = 0  # finished epochs
    batch: int = 0  # batches taken of the epoch under way
    epoch_fraction: float = 0.0  # epochs and the fraction of the one under way
    seconds: float = 0.0  # of training, over all attempts
    pieces: int = 0  # target pieces trained on
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # nll, correct, pieces since the last record
    best: float | None = None  # of the monitored quantity
    since_best: int = 0  # validations
    valid_loss: float | None = None
    valid_bleu: float | None = None
    regular: bool = True  # due by checkpoint_every
    skipped: int = 0  # updates left out, as their gradient was no number


class Checkpoints:
    """The checkpoints of one training, in ``folder/update-00000123/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first."""
        return sorted(self.folder.glob("update-*"))

    def progress(self, checkpoint: Path) -> Progress:
        """How far the training was at a checkpoint."""
        return as_written(Progress, read_json(checkpoint / PROGRESS)["progress"], checkpoint / PROGRESS)

    def _verified(self, checkpoint: Path) -> Progress:
        """The same, if it is as it was written; older checkpoints have no digest of it."""
        written = read_json(checkpoint / PROGRESS)
        if written.get("digest", expected := digest(written["progress"])) != expected:
            raise DataError(f"{checkpoint / PROGRESS}: is not as it was written")
        return as_written(Progress, written["progress"], checkpoint / PROGRESS)

    def save(self, progress: Progress, model: nn.Module, optimizer: optim.Optimizer) -> Path:
        """Write a whole checkpoint, or none."""
        target = self.folder / f"update-{progress.update:08d}"
        with atomic_directory(target) as part:
            write_tensors(weights_of(model), part / WEIGHTS)
            write_tensors(_flatten(model, optimizer), part / OPTIMIZER)
            hashes = {name: sha256(part / name) for name in (WEIGHTS, OPTIMIZER)}
            found = asdict(progress)
            write_json(part / PROGRESS, {"progress": found, "digest": digest(found), "sha256": hashes})
        return target

    def resume(self, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
        """Load the newest checkpoint that is whole into model and optimiser; stay at update 0 if there is none.

        A damaged one is reported, set aside under another name, and the one before it is taken. So are older ones
        whose progress cannot be read, which `prune` asks for.
        """
        for leftover in self.folder.glob(".update-*"):  # of a process killed while saving
            shutil.rmtree(leftover)
        newest: Progress | None = None
        for checkpoint in reversed(self.all()):
            try:
                if newest:
                    self.progress(checkpoint)
                else:
                    newest = self._load(checkpoint, model, optimizer)
            except DataError as error:
                warnings.warn(f"{error}; set aside as damaged-{checkpoint.name}, resuming from before", stacklevel=2)
                shutil.rmtree(self.folder / f"damaged-{checkpoint.name}", ignore_errors=True)
                checkpoint.replace(self.folder / f"damaged-{checkpoint.name}")
        return newest or Progress()

    def _load(self, checkpoint: Path, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
        """Load a checkpoint, all of it or nothing, and give how far it was."""
        progress = self._verified(checkpoint)
        weights, state = load_verified(checkpoint, WEIGHTS), load_verified(checkpoint, OPTIMIZER)
        load_weights(model, weights, checkpoint)
        _unflatten(model, optimizer, state)
        return progress

    def prune(self, keep_last: int | None, keep_best: int, monitor: str) -> None:
        """Delete what the retention rule does not keep, and the optimiser's state of all but the newest two."""
        found = self.all()
        progress = {path: self.progress(path) for path in found}
        regular = [path for path in found if progress[path].regular]
        keep = {*found[-RESUMABLE:], *(regular if keep_last is None else regular[-keep_last:])}
        keep.update(best_of(progress, monitor)[:keep_best])
        for path in found:
            if path not in keep:
                doomed = path.with_name(f".{path.name}.old")  # rename first: never half there
                path.replace(doomed)
                shutil.rmtree(doomed)
        for path in sorted(keep)[:-RESUMABLE]:
            (path / OPTIMIZER).unlink(missing_ok=True)


def spread(processes: Processes, progress: Progress, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
    """Give every process the first one's weights, optimiser's state and progress, which is returned."""
    if processes.size == 1:
        return progress
    progress, weights, state = processes.from_first((progress, weights_of(model), _flatten(model, optimizer)))
    if not processes.first:
        load_weights(model, weights, Path("the first process"))
        _unflatten(model, optimizer, state)
    return progress


def best_of(progress: Mapping[Path, Progress], monitor: str) -> list[Path]:
    """Validated checkpoints, best first: the lowest validation loss, or the highest BLEU; ties go to the earlier."""

    def cost(progress: Progress) -> float | None:
        return progress.valid_loss if monitor == "loss" else progress.valid_bleu and -progress.valid_bleu

    valued = [(value, path) for path, p in progress.items() if (value := cost(p)) is not None]
    return [path for _, path in sorted(valued)]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, a tied one once."""
    return {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Copy weights into a model of the same shape.

    Raises:
        DataError: names or shapes do not fit.
    """
    own = dict(model.named_parameters())
    if wrong := own.keys() ^ weights.keys():
        raise DataError(f"{where}: weights do not fit this model: {', '.join(sorted(wrong)[:5])} on one side only")
    for name, parameter in own.items():
        if parameter.shape != weights[name].shape:
            got, expected = tuple(weights[name].shape), tuple(parameter.shape)
            raise DataError(f"{where}: {name} has shape {got}, expected {expected}; was the configuration changed?")
        parameter.data.copy_(weights[name])


def load_verified(checkpoint: Path, name: str) -> dict[str, Tensor]:
    """Read one file of a checkpoint.

    Raises:
        DataError: it is missing, cut short or altered (by its SHA-256).
    """
    expected = read_json(checkpoint / PROGRESS)["sha256"][name]
    path = checkpoint / name
    if not path.is_file():
        raise DataError(f"{path}: no such file; choose another checkpoint (--at), or train again")
    if (got := sha256(path)) != expected:
        raise DataError(
            f"{path}: expected sha256 {expected[:12]}…, got {got[:12]}… ({path.stat().st_size:,} bytes)"
            "; choose another checkpoint (--at), or train again"
        )
    return read_tensors(path)


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file; raises DataError if the disk does not take it."""
    try:
        save_file(tensors, path)
        path.chmod(0o666 & ~UMASK)  # which has made it the user's alone
    except SafetensorError as error:
        raise DataError(f"{path}: cannot be written: {error}; make room, then run the same command again") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; raises DataError if it is missing or damaged."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: expected safetensors, got: {error}; make it again") from None


def whole_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a model directory; raises DataError where their bits are not those that were written."""
    weights, made = folder / WEIGHTS, folder / "provenance.json"
    found = read_tensors(weights)
    expected = read_json(made).get("weights_sha256") if made.is_file() else None
    if expected and (got := sha256(weights)) != expected:
        raise DataError(
            f"{weights}: expected the checksum in provenance.json, {expected[:12]}…, got {got[:12]}…; the file is "
            "damaged, make it again with `nmt average`"
        )
    return found


def _flatten(model: nn.Module, optimizer: optim.Optimizer) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value.detach().cpu().contiguous()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def _unflatten(model: nn.Module, optimizer: optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for flat, value in state.items():
        name, key = flat.rsplit("/", 1)
        parameter = parameters[name]
        optimizer.state[parameter][key] = value.to(parameter.device)
    assert all(torch.is_tensor(v) for s in optimizer.state.values() for v in s.values())
