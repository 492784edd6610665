"""Feed mutated files to everything that reads a file of somebody else: each must be taken, or refused with a message.

Files of a model folder, of a training's state, of an encoded corpus, and YAML are changed at random: bits, lengths,
values of JSON and YAML, headers of arrays, pipes and devices in the place of files. Checksums are made to fit half of
the time, because whoever sends such a file knows them. Each input is read in a process of its own.

    python -m benchmarks.hostile --tries 2000
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import torch
import yaml

from benchmarks.faults import TABLE
from nmt.cli.errors import explain
from nmt.config.data import Subwords
from nmt.config.decoding import Decoding
from nmt.config.table import load_table
from nmt.config.workflow import Workflow
from nmt.config.yaml import load
from nmt.data.encode import encode_corpus
from nmt.models.build import build
from nmt.serve.models import load as load_served
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import digest, read_json, sha256, write_json, write_lines
from nmt.text.subwords import learn
from nmt.training.average import average
from nmt.training.checkpoint import OPTIMIZER, PROGRESS, WEIGHTS, Checkpoints
from nmt.training.experiment import Experiment
from nmt.training.optimizer import make_optimizer
from nmt.training.train import train
from nmt.translation.translator import Translator

SECONDS, MEMORY = 10, 1024  # bounds of one input: of processor time, and MiB of the whole process with torch
PATIENCE = 120  # seconds until a process that waits is ended; other processes may take most of the processor
LINE = "w1 w2 w3"
ODD: list[Any] = [
    None, True, -1, 0, 1, 2, 10**9, 2**63, 10**5000, 1e308, float("nan"), "", "x", "\x1b[2J", "../../etc/passwd",
    "é" * 10_000, [], {}, [[]], {"": {}}, ["a", 1], list(range(2000)),
]  # fmt: skip


@dataclass(frozen=True)
class Material:
    """Whole files to mutate copies of.

    Attributes:
        encoded: an encoded corpus.
        run: a training on it, with its state.
        model: a model directory made of it.
        table: a table file.
        settings: a ``config.yaml``.
    """

    encoded: Path
    run: Path
    model: Path
    table: Path
    settings: Path


@dataclass(frozen=True)
class Target:
    """What a stranger's file reaches: the files to mutate, and the code that reads them."""

    name: str
    files: Callable[[Material], list[Path]]
    read: Callable[[Material], object]


def translate(material: Material) -> None:
    Translator.load(material.model, "cpu", 1).translate([LINE])


def serve(material: Material) -> None:
    [served] = load_served([material.model], "cpu", 1)
    json.dumps(served.description())
    served.translate(LINE, Decoding(nbest=2))


def resume(material: Material) -> None:
    config = Experiment.model_validate({"model": MODEL, "training": TRAINING})
    sizes = read_json(material.encoded / "meta.json")["vocabulary"]
    network = build(config.model, sizes["source"], sizes["target"], 0)
    Checkpoints(checkpoints(material)).resume(network, make_optimizer(network, config.training.optimizer))


def go_on(material: Material) -> None:
    """Continue the training of the state, or begin anew if it is set aside."""
    config = Experiment.model_validate({"model": MODEL, "training": TRAINING | {"updates": 2}})
    (material.run / "training.json").unlink(missing_ok=True)
    train(material.encoded, material.run, config, 1, "cpu", 1, "t/s")


def make_average(material: Material) -> None:
    average(material.run, material.encoded, "last", material.run.parent / "out")


def begin(material: Material) -> None:
    config = Experiment.model_validate({"model": MODEL, "training": TRAINING})
    train(material.encoded, material.run.parent / "new", config, 1, "cpu", 1, "t/s")


def checkpoints(material: Material) -> Path:
    return material.run / "state" / "checkpoints"


def of_checkpoints(material: Material) -> list[Path]:
    return sorted(checkpoints(material).glob("update-*/*"))


def of_run(material: Material) -> list[Path]:
    state = material.run / "state"
    return [material.run / "training.json", state / "identity.json", state / "log.jsonl", *of_checkpoints(material)]


MODEL = {"layers": 1, "width": 8, "ffn": 8, "heads": 1}
TRAINING = {"updates": 1, "batch": "512 tokens", "checkpoint_every": "1 updates", "validation_bleu": False}
TARGETS = [
    Target("model, translated with", lambda m: sorted(m.model.iterdir()), translate),
    Target("model, served", lambda m: sorted(m.model.iterdir()), serve),
    Target("checkpoint, resumed from", of_checkpoints, resume),
    Target("training, continued", of_run, go_on),
    Target("training, averaged", of_run, make_average),
    Target("encoded corpus, trained on", lambda m: sorted(m.encoded.iterdir()), begin),
    Target("table", lambda m: [m.table], lambda m: load_table(m.table)),
    Target("settings", lambda m: [m.settings], lambda m: load(Workflow, m.settings)),
]


def make_material(folder: Path) -> Material:
    """Encode the copy task, train a tiny model on it, and write a table and settings."""
    words, chance = [f"w{n}" for n in range(10)], random.Random(1)
    for split, count in (("train", 200), ("valid", 20)):
        lines = [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(count)]
        for language in ("en", "de"):
            write_lines(folder / "clean" / f"{split}.{language}", lines)
    write_json(folder / "clean" / "report.json", {"cleaning": {}, "languages": "en-de", "corpus": "copy", "splits": {}})
    learn(folder / "clean", folder / "subwords", "en-de", Subwords(size=17))
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    material = Material(*(folder / name for name in ("encoded", "run", "model", "t.yaml", "config.yaml")))
    config = Experiment.model_validate({"model": MODEL, "training": TRAINING})
    train(material.encoded, material.run, config, 1, "cpu", 1, "t/s")
    average(material.run, material.encoded, "last", material.model)
    material.table.write_text(yaml.safe_dump(TABLE))
    material.settings.write_text(yaml.safe_dump({"tables": ["t"], "device": "cpu", "seeds": [1, 2], "limit": 300}))
    return material


# Mutations


def mutate(path: Path, chance: random.Random) -> None:
    """Change a file in one random way."""
    content = path.read_bytes()
    ways: list[Callable[[], object]] = [lambda: path.write_bytes(change_bytes(content, chance))] * 3
    if path.suffix in (".json", ".yaml"):
        ways += [lambda: path.write_text(change_values(path, chance), encoding="utf-8", errors="surrogatepass")] * 8
    if path.suffix in (".safetensors", ".npy"):
        ways += [lambda: path.write_bytes(change_header(path, chance))] * 6
    chance.choice([*ways, lambda: put_something_else(path, chance)])()


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    first, last = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    match chance.randrange(7):
        case 0:
            del data[first:]
        case 1:
            del data[first:last]
        case 2:
            data[first:first] = data[first:last]
        case 3:
            data[first:last] = bytes(last - first)
        case 4:
            data[first:first] = chance.randbytes(20)
        case 5:
            data = bytearray(
                chance.choice([b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe\0", b"9" * 10_000, b"\n" * 9])
            )
        case _:
            for _ in range(chance.choice([1, 1, 10]) if data else 0):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def change_values(path: Path, chance: random.Random) -> str:
    """Replace, add or delete values of JSON or YAML."""
    is_yaml = path.suffix == ".yaml"
    value = yaml.safe_load(path.read_text()) if is_yaml else json.loads(path.read_text())
    for _ in range(chance.choice([1, 1, 1, 3])):
        container, key = chance.choice(list(places(value)))
        if chance.random() < 0.2:
            del container[key]
        elif isinstance(container, dict) and chance.random() < 0.1:
            container[chance.choice(["", "x", "model", "\x1b[2J", "a" * 1000])] = deepcopy(chance.choice(ODD))
        else:
            container[key] = deepcopy(chance.choice(ODD))
        if not any(True for _ in places(value)):
            break
    sys.set_int_max_str_digits(0)
    try:
        return str(yaml.safe_dump(value)) if is_yaml else json.dumps(value, ensure_ascii=chance.random() < 0.5)
    finally:
        sys.set_int_max_str_digits(4300)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container inside a value, with each of its keys."""
    for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(part, dict | list):
            yield from places(part)


def change_header(path: Path, chance: random.Random) -> bytes:
    """Change a number or a word in the header of a safetensors file or of an array."""
    content = path.read_bytes()
    if path.suffix == ".npy":
        numbers = [b"(%d,)" % n for n in (0, 1, 10**6, 10**12, 10**30)] + [b"()", b"(-1,)", b"(2, 3)", b"(5,) * 9"]
        end = content.index(b"\n")
        header = content[:end].replace(content[content.index(b"(") : content.index(b")") + 1], chance.choice(numbers))
        if chance.random() < 0.5:
            header = content[:end].replace(b"<", chance.choice([b">", b"|O", b"<f8,<", b"=", b"S"]), 1)
        return header.rstrip().ljust(end)[:end] + content[end:]
    size = int.from_bytes(content[:8], "little")
    header_values = json.loads(content[8 : 8 + size])
    container, key = chance.choice(list(places(header_values)))
    container[key] = chance.choice([-1, 0, 2**40, 2**64, "F64", "I8", "BOOL", [], [1], [2**40, 2**40], {}, None, "x"])
    header = json.dumps(header_values).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def put_something_else(path: Path, chance: random.Random) -> None:
    path.unlink()
    ways: list[Callable[[], object]] = [
        lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to(path.name), lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/urandom"), lambda: path.symlink_to("/proc/self/mem"), lambda: None,
    ]  # fmt: skip
    chance.choice(ways)()


def fit_checksums(material: Material) -> None:
    """Leave out or write anew the checksums of the files, as their maker would."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        (material.model / "provenance.json").unlink()
    for checkpoint in checkpoints(material).glob("update-*"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            written = dict(read_json(checkpoint / PROGRESS))  # refuses a device, which would never end
            written |= {"digest": digest(written["progress"])}
            written["sha256"] |= {name: sha256(checkpoint / name) for name in (WEIGHTS, OPTIMIZER)}
            (checkpoint / PROGRESS).write_text(json.dumps(written))
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        meta = read_json(material.encoded / "meta.json")
        (material.encoded / "meta.json").write_text(json.dumps({k: v for k, v in meta.items() if k != "sha256"}))


def damaged_copy(material: Material, folder: Path, target: Target, chance: random.Random) -> tuple[Material, Path]:
    """Copy the material into a folder and mutate one file that the target reads; return the copy and that file."""
    parts = {name: folder / path.name for name, path in vars(material).items()}
    for name, path in vars(material).items():
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, parts[name])
    copy = replace(material, **parts)
    path = chance.choice(target.files(copy))
    mutate(path, chance)
    if chance.random() < 0.5:
        fit_checksums(copy)
    return copy, path


def outcome(read: Callable[[Material], object], material: Material) -> str:
    """Return ``taken``, ``refused``, or what is wrong with the refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(material)
    except (ConfigError, DataError) as error:
        return "refused" if len(str(error)) < 20_000 else "a message of more than 20,000 characters"
    except (OSError, MemoryError, RuntimeError) as error:
        return "refused" if explain(error) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


# Each input in a process of its own


def tried(read: Callable[[Material], object], material: Material) -> tuple[str, float, int]:
    """Read the material in a forked process; return its outcome, its processor seconds, and its peak memory in MiB."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        os.write(writer, outcome(read, material).encode(errors="replace")[:500])
        os._exit(0)
    os.close(writer)
    _, status, usage = os.wait4(child, 0)
    with open(reader, "rb") as pipe:  # noqa: PTH123
        answer = pipe.read().decode()
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024
    if os.WIFSIGNALED(status):
        answer = f"ended by signal {os.WTERMSIG(status)}"
    elif seconds > SECONDS or memory > MEMORY:
        answer = f"took {seconds:.1f} s and {memory:,} MiB"
    return answer, seconds, memory


@click.command()
@click.option("--tries", default=2000, show_default=True, help="Number of inputs.")
@click.option("--seed", default=1, show_default=True, help="Seed of the mutations.")
@click.option("--only", default="", help="Only files whose name contains this text.")
def main(tries: int, seed: int, only: str) -> None:
    """Print a table of what became of the inputs; exit code 1 if one was neither taken nor refused within bounds."""
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # no power failure is tried, and waiting for a disk is not what is measured
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        material = make_material(Path(name) / "whole")
        print("| file | inputs | taken | refused | longest, s | largest, MiB |\n|---|---|---|---|---|---|", flush=True)
        for target in (target for target in TARGETS if only in target.name):
            counts, longest, largest = Counter[str](), 0.0, 0
            for number in range(tries // len(TARGETS)):
                with tempfile.TemporaryDirectory(dir=name) as folder:
                    chance = random.Random(f"{seed} {target.name} {number}")
                    copy, path = damaged_copy(material, Path(folder), target, chance)
                    answer, seconds, memory = tried(target.read, copy)
                counts[answer] += 1
                longest, largest = max(longest, seconds), max(largest, memory)
                if answer not in ("taken", "refused"):
                    bad.append(f"{target.name}, input {number}, {path.name}: {answer}")
                    print(bad[-1], file=sys.stderr, flush=True)
            cells = f"{counts.total()} | {counts['taken']} | {counts['refused']} | {longest:.1f} | {largest:,}"
            print(f"| {target.name} | {cells} |", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
