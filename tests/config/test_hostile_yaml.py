"""Settings from somebody else: bounded in time and memory, and one message whatever is wrong."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest
import yaml

from nmt.config.table import load_table
from nmt.config.workflow import Workflow
from nmt.config.yaml import DIGITS, load, parse
from nmt.system.errors import ConfigError
from nmt.training.experiment import Experiment

BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
MERGES = "".join(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
HOSTILE = {
    "a bomb of anchors": (f"a0: &a0 [x]\n{BOMB}tables: *a9", "line 5: expected YAML, got more than 2,000 values"),
    "a bomb of merges": (f"a0: &a0 {{x: y}}\n{MERGES}tables: *a39", "more than 2,000 values"),
    "a value in itself": ("tables: &a [*a]", "line 1: expected YAML, got a value that contains itself"),
    "too many values": (f"tables: [{'a, ' * 2000}]", "more than 2,000 values"),
    "many brackets": ("tables: " + "[" * 100_000, "more than 50 values inside each other"),
    "many braces": ('{"a":' * 100_000, "more than 50 values inside each other"),
    "long": ("#" * (2**20 + 1), "expected at most 1,048,576 characters"),
    "a number to base 60": ("samples: 1" + ":10" * 100_000, f"a number of more than {DIGITS} characters"),
    "a long number": (f"samples: 0x{'f' * 90_000}", f"a number of more than {DIGITS} characters"),
    "an empty number": ("samples: !!int ''", "expected YAML, got"),
    "a wrong truth": ("samples: !!bool perhaps", "expected YAML, got"),
    "a wrong time": ("samples: !!timestamp now", "expected YAML, got"),
    "an escape": ('caption: "\\e[31mred"', "line 1: expected YAML, got a control character in a value"),
    "a reversed line": ('caption: "\\u202Egpj.exe"', "a control character in a value"),
    "many wrong keys": ("\n".join(f"k{n}: {n}" for n in range(500)), "484 more of such problems"),
    "a long key": (f"{'k' * 1000}: 5", "unknown key"),
    "large defaults": (
        yaml.safe_dump(
            {"defaults": {f"k{n}": 1 for n in range(200)}, "systems": {f"s{n}": {"a": 1} for n in range(250)}}
        ),
        "too many values to merge",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_yaml_is_one_short_message_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, message = HOSTILE[case]
    for module in ("yaml", "inherit"):  # fewer values than in use, so that the test is short
        monkeypatch.setattr(f"nmt.config.{module}.VALUES", 2000)
    (tmp_path / "t.yaml").write_text(text)
    started = time.monotonic()
    with pytest.raises(ConfigError) as refusal:
        load_table(tmp_path / "t.yaml")
    assert message in str(refusal.value) and len(str(refusal.value)) < 12_000
    assert time.monotonic() - started < 10


def test_a_bomb_takes_no_memory_while_its_message_is_made(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(HOSTILE["a bomb of anchors"][0])
    tracemalloc.start()
    with pytest.raises(ConfigError):
        load(Workflow, tmp_path / "c.yaml")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize("odd", ["pipe", "device"])
def test_a_pipe_or_device_is_not_read(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "c.yaml"
    os.mkfifo(path) if odd == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match=r"c\.yaml: expected a file of settings, got a device or pipe"):
        load(Workflow, path)


def test_many_seeds_are_compared_fast() -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError, match="got '0' twice"):
        parse(Workflow, f"tables: [a]\nseeds: [{', '.join(map(str, range(5_000)))}, 0]", "c.yaml")
    assert time.monotonic() - started < 10


def test_anchors_and_merges_stay_allowed() -> None:
    text = "model: &m {layers: 2, width: 8}\ntraining: {updates: 5}\n"
    merged = parse(Experiment, text.replace("{layers: 2, width: 8}", "\n  <<: {layers: 2}\n  width: 8"), "c.yaml")
    assert merged == parse(Experiment, text, "c.yaml")


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "multimodal"])
@pytest.mark.parametrize("positions", [1, 2])
def test_positions_without_room_for_a_word_are_refused(kind: str, positions: int) -> None:
    text = f"model: {{kind: {kind}, max_positions: {positions}}}\ntraining: {{updates: 1}}"
    expected = f"max_positions must be 3 or more, for BOS, one piece and EOS, got {positions}"
    with pytest.raises(ConfigError, match=f"line 1: model.max_positions: {expected}"):
        parse(Experiment, text, "c.yaml")
    parse(Experiment, text.replace(f"positions: {positions}", "positions: 3"), "c.yaml")
