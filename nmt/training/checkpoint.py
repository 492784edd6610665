"""Checkpoints: directories that are whole or absent and verified when read."""

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn, optim

from nmt.config.models import ModelConfig
from nmt.models.base import TranslationModel
from nmt.models.build import outline
from nmt.system.errors import ConfigError, DataError, fitting
from nmt.system.files import (
    UMASK,
    Json,
    atomic_directory,
    build_stored,
    check_regular,
    digest,
    read_json,
    sha256,
    write_json,
)
from nmt.system.warnings import warn
from nmt.training.distributed import Processes

WEIGHTS, OPTIMIZER, PROGRESS = "weights.safetensors", "optimizer.safetensors", "progress.json"
EXPORTS = {
    "translate.json": "an export for CTranslate2; python {0}/translate.py translates with it",
    "source.spm": "one of Hugging Face; nmt import {0} NEW makes a model directory of it",
    "MLmodel": "a model of MLflow; its model directory is in {0}/data",
}
"""What a folder with such a file is, in place of a model directory, and what to do with it."""
RESUMABLE = 2  # newest checkpoints that keep the optimiser's state: one more, in case the newest is damaged


@dataclass
class Progress:
    """How far a training is. With the weights and the optimiser's state, it is all that resuming needs."""

    update: int = 0
    epoch: int = 0  # finished epochs
    batch: int = 0  # batches taken of the current epoch
    epoch_fraction: float = 0.0  # epochs, with the fraction of the current one
    seconds: float = 0.0  # of training, over all attempts
    pieces: int = 0  # target pieces trained on
    sums: tuple[float, float, float] = (0.0, 0.0, 0.0)  # nll, correct, pieces since the last record
    best: float | None = None  # of the monitored quantity
    since_best: int = 0  # validations
    valid_loss: float | None = None
    valid_bleu: float | None = None
    regular: bool = True  # due by checkpoint_every
    skipped: int = 0  # updates left out because their gradient was not a number

    def add_validation(self, loss: float, bleu: float | None, monitor: str) -> bool:
        """Take over a validation, and return whether it is the best so far by ``monitor``, ``loss`` or ``bleu``."""
        self.valid_loss, self.valid_bleu = math.inf if math.isnan(loss) else loss, bleu
        value = -self.valid_loss if monitor == "loss" else bleu
        assert value is not None
        better = self.best is None or value > self.best
        self.best, self.since_best = (value, 0) if better else (self.best, self.since_best + 1)
        return better


def check_model_directory(folder: Path) -> None:
    """Check that a folder looks like a model directory of `nmt average`.

    Raises:
        ConfigError: it is a model for another program.
        DataError: it has no configuration.
    """
    for name, other in EXPORTS.items():
        if (folder / name).is_file():
            raise ConfigError(f"{folder}: expected a model directory, got {other.format(folder)}")
    if not (folder / "config.json").exists():
        below = (sorted(folder.glob("*/" * depth + "model/config.json")) for depth in range(4))
        inside = "".join(f"; there is {file.parent}" for file in next(filter(None, below), [])[:5])
        raise DataError(f"{folder}: no such model directory; expected a config.json in it, as in demo{inside}")


class Checkpoints:
    """The checkpoints of one training, in ``folder/update-00000123/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Path]:
        """Return all checkpoints, oldest first."""
        return sorted(self.folder.glob("update-*"))

    def path(self, progress: Progress) -> Path:
        """Return the folder of the checkpoint at a progress."""
        return self.folder / f"update-{progress.update:08d}"

    def progress(self, checkpoint: Path) -> Progress:
        """Return the progress of the training at a checkpoint."""
        with fitting(checkpoint, "a checkpoint", "train again"):
            return build_stored(Progress, read_json(checkpoint / PROGRESS)["progress"], checkpoint / PROGRESS)

    def _verified(self, checkpoint: Path) -> Progress:
        """Return the progress if it has the digest that was written; older checkpoints have none."""
        written = read_json(checkpoint / PROGRESS)
        if written.get("digest", expected := digest(written["progress"])) != expected:
            raise DataError(f"{checkpoint / PROGRESS}: is not as it was written")
        return build_stored(Progress, written["progress"], checkpoint / PROGRESS)

    def save(self, progress: Progress, model: nn.Module, optimizer: optim.Optimizer) -> None:
        """Write a whole checkpoint or none."""
        with atomic_directory(self.path(progress)) as part:
            write_tensors(weights_of(model), part / WEIGHTS)
            write_tensors(_flatten(model, optimizer), part / OPTIMIZER)
            hashes = {name: sha256(part / name) for name in (WEIGHTS, OPTIMIZER)}
            written = asdict(progress)
            write_json(part / PROGRESS, {"progress": written, "digest": digest(written), "sha256": hashes})

    def resume(self, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
        """Load the newest whole checkpoint into model and optimiser, and return its progress: update 0 without one.

        Damaged checkpoints get another name, with a warning. So do older ones whose progress cannot be read, because
        `prune` needs it.
        """
        for leftover in self.folder.glob(".update-*"):  # of a process that was killed while it saved
            shutil.rmtree(leftover)
        newest: Progress | None = None
        for checkpoint in reversed(self.all()):
            try:
                if newest:
                    self.progress(checkpoint)
                else:
                    newest = self._load(checkpoint, model, optimizer)
            except DataError as error:
                warn(
                    "damaged checkpoint", checkpoint, 1, f"{error}; set aside as damaged-{checkpoint.name}",
                    "nothing to do: training resumes from the checkpoint before", scores=False,
                )  # fmt: skip
                shutil.rmtree(self.folder / f"damaged-{checkpoint.name}", ignore_errors=True)
                checkpoint.replace(self.folder / f"damaged-{checkpoint.name}")
        return newest or Progress()

    def _load(self, checkpoint: Path, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
        """Load all of a checkpoint or nothing, and return its progress."""
        with fitting(checkpoint, "a checkpoint", "train again"):
            progress = self._verified(checkpoint)
            weights, state = load_verified(checkpoint, WEIGHTS), load_verified(checkpoint, OPTIMIZER)
            _check_state(model, state, checkpoint)
            load_weights(model, weights, checkpoint)
            _unflatten(model, optimizer, state)
            return progress

    def among_best(self, progress: Progress, count: int, monitor: str) -> bool:
        """Return whether the checkpoint at a progress, saved or not, is one of the ``count`` best."""
        path = self.path(progress)
        known = {other: self.progress(other) for other in self.all()} | {path: progress}
        return path in best_of(known, monitor)[:count]

    def has_kept(self, log: Iterable[Json], keep_last: int | None, keep_best: int, monitor: str) -> bool:
        """Return whether all checkpoints are here that a retention rule keeps from those in a training's log."""
        present = self.all()
        regular, validated = dict[Path, None](), dict[Path, Progress]()
        for record in log:
            progress = Progress(update=record["update"])
            path = self.path(progress)
            if record["event"] == "checkpoint" and record["regular"] and path <= max(present, default=path):
                regular[path] = None
            elif record["event"] == "valid" and path <= max(present, default=path):
                progress.add_validation(record["loss"], record["bleu"], monitor)
                validated[path] = progress
        last = list(regular) if keep_last is None else list(regular)[-keep_last:]
        return {*last, *best_of(validated, monitor)[:keep_best]} <= {*present}

    def prune(self, keep_last: int | None, keep_best: int, monitor: str) -> None:
        """Delete checkpoints that the retention rule does not keep, and the older ones' optimiser state."""
        paths = self.all()
        progress = {path: self.progress(path) for path in paths}
        regular = [path for path in paths if progress[path].regular]
        keep = {*paths[-RESUMABLE:], *(regular if keep_last is None else regular[-keep_last:])}
        keep.update(best_of(progress, monitor)[:keep_best])
        for path in paths:
            if path not in keep:
                doomed = path.with_name(f".{path.name}.old")  # rename first, so that no partial checkpoint remains
                path.replace(doomed)
                shutil.rmtree(doomed)
        for path in sorted(keep)[:-RESUMABLE]:
            (path / OPTIMIZER).unlink(missing_ok=True)


def broadcast_state(processes: Processes, progress: Progress, model: nn.Module, optimizer: optim.Optimizer) -> Progress:
    """Copy weights, optimiser state and progress of the first process to all; return the progress."""
    if processes.size == 1:
        return progress
    progress, weights, state = processes.broadcast((progress, weights_of(model), _flatten(model, optimizer)))
    if not processes.first:
        load_weights(model, weights, Path("the first process"))
        _unflatten(model, optimizer, state)
    return progress


def best_of(progress: Mapping[Path, Progress], monitor: str) -> list[Path]:
    """Return validated checkpoints, best first: the lowest loss or the highest BLEU; the earlier one wins a tie."""

    def cost(progress: Progress) -> float | None:
        if monitor == "loss":
            return progress.valid_loss
        return None if progress.valid_bleu is None else -progress.valid_bleu

    valued = [(value, path) for path, p in progress.items() if (value := cost(p)) is not None]
    return [path for _, path in sorted(valued)]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name, tied ones once."""
    return {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Copy weights into a model.

    Args:
        model: a model of the same shape.
        weights: by parameter name.
        where: the origin of the weights, for messages.

    Raises:
        DataError: names or shapes do not fit.
    """
    check_shapes(model, {name: weight.shape for name, weight in weights.items()}, where)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(weights[name])


def check_shapes(model: nn.Module, shapes: Mapping[str, torch.Size], where: Path) -> None:
    """Check that weights of these shapes, by parameter name, fit a model; raises as `load_weights` does."""
    own = dict(model.named_parameters())
    if wrong := own.keys() ^ shapes.keys():
        raise DataError(f"{where}: weights do not fit this model: {', '.join(sorted(wrong)[:5])} on one side only")
    for name, parameter in own.items():
        if parameter.shape != shapes[name]:
            got, expected = tuple(shapes[name]), tuple(parameter.shape)
            raise DataError(f"{where}: {name} has shape {got}, expected {expected}; was the configuration changed?")


def load_verified(checkpoint: Path, name: str) -> dict[str, Tensor]:
    """Read one file of a checkpoint.

    Raises:
        DataError: it is missing, or its SHA-256 is not the one that was written.
    """
    expected = read_json(checkpoint / PROGRESS)["sha256"][name]
    path = checkpoint / name
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if (got := sha256(path)) != expected:
        raise DataError(f"{path}: expected sha256 {expected[:12]}…, got {got[:12]}… ({path.stat().st_size:,} bytes)")
    return read_tensors(path)


def write_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; raise DataError if that fails."""
    try:
        save_file(tensors, path, metadata)
        path.chmod(0o666 & ~UMASK)  # safetensors makes it readable for its owner only
    except SafetensorError as error:
        raise DataError(f"{path}: cannot be written: {error}; make room, then run the same command again") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; raise DataError if it is missing or damaged."""
    with _safetensors(path):
        return dict(load_file(path))


def read_shapes(path: Path) -> dict[str, torch.Size]:
    """Read only the header of a safetensors file: the shape of each tensor; raises as `read_tensors` does."""
    with _safetensors(path), safe_open(path, "pt") as tensors:
        return {name: torch.Size(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118


def outline_of(
    folder: Path, config: ModelConfig, vocabularies: Sequence[int], pad: int, member: str = ""
) -> TranslationModel:
    """Outline the model of a model directory, whose weights must have the shapes that its configuration says.

    This takes no time or memory, even if somebody wrote a configuration of a million layers.

    Args:
        folder: the model directory.
        config: its configuration.
        vocabularies: number of pieces of the source and the target side.
        pad: id of padding.
        member: of an ensemble, what the names of one model begin with.

    Returns:
        The model on torch's meta device.

    Raises:
        DataError: the weights are missing, damaged, or of other shapes.
    """
    read = read_shapes(folder / WEIGHTS).items()
    shapes = {name.removeprefix(member): shape for name, shape in read if name.startswith(member)}
    model = outline(config, vocabularies, pad, len(shapes))
    if model is None:
        raise DataError(f"{folder}: config.json describes a model larger than its {len(shapes)} weights")
    check_shapes(model, shapes, folder)
    return model


@contextmanager
def _safetensors(path: Path) -> Iterator[None]:
    check_regular(path)
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: expected safetensors, got: {error}; make it again") from None


def verified_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a model directory; raise DataError if their checksum is not that of its provenance."""
    path, provenance = folder / WEIGHTS, folder / "provenance.json"
    weights = read_tensors(path)
    expected = read_json(provenance).get("weights_sha256") if provenance.exists() else None
    if expected and (got := sha256(path)) != expected:
        raise DataError(
            f"{path}: expected the checksum in provenance.json, {expected[:12]}…, got {got[:12]}…; the file is "
            "damaged, make it again with `nmt average`"
        )
    return weights


def _flatten(model: nn.Module, optimizer: optim.Optimizer) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value.detach().cpu().contiguous()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def _check_state(model: nn.Module, state: Mapping[str, Tensor], where: Path) -> None:
    """Check that the optimiser's state is of this model's parameters: for each, tensors of its shape and numbers."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    for flat, value in state.items():
        name, _, _ = flat.rpartition("/")
        if name not in shapes or value.shape not in (shapes[name], torch.Size()) or not value.is_floating_point():
            raise DataError(f"{where / OPTIMIZER}: {flat}, of shape {tuple(value.shape)}, does not fit this model")


def _unflatten(model: nn.Module, optimizer: optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for flat, value in state.items():
        name, key = flat.rsplit("/", 1)
        parameter = parameters[name]
        optimizer.state[parameter][key] = value.to(parameter.device)
    assert all(torch.is_tensor(v) for s in optimizer.state.values() for v in s.values())
