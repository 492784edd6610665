"""A training's state in a bucket: what is sent, in which order, and what another machine has of it."""

import json
import sys
from pathlib import Path

import pytest

from nmt.system.buckets import state as module
from nmt.system.buckets.copies import check_environment, link_copies
from nmt.system.buckets.state import S3Bucket, StoredState, run_with_state
from nmt.system.errors import ConfigError


class Memory:
    """A bucket in memory that can break after some files; it lists the files as S3 does, by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.order: list[str] = []  # of what was sent
        self.fetched: list[str] = []
        self.breaks_after: int | None = None

    def sizes(self) -> dict[str, int]:
        return {name: len(content) for name, content in sorted(self.files.items())}

    def fetch(self, name: str, file: Path) -> None:
        if self.breaks_after == len(self.fetched):
            raise ConnectionError("no route to host")
        self.fetched.append(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.files[name])

    def send(self, name: str, file: Path) -> None:
        if self.breaks_after == len(self.order):
            raise ConnectionError("no route to host")
        self.order.append(name)
        self.files[name] = file.read_bytes()

    def delete(self, name: str) -> None:
        del self.files[name]


def checkpoint(state: Path, update: int) -> None:
    folder = state / "checkpoints" / f"update-{update:08d}"
    folder.mkdir(parents=True)
    for name in ("progress.json", "optimizer.safetensors", "weights.safetensors"):
        (folder / name).write_text(f"{update} {name}")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "state"
    checkpoint(folder, 20)
    checkpoint(folder, 10)
    (folder / "identity.json").write_text('{"identity": {"seed": 1}, "config": {}}')
    (folder / "log.jsonl").write_text('{"update": 20}\n')
    (folder / "checkpoints" / ".update-00000030.part").mkdir()
    (folder / "checkpoints" / ".update-00000030.part" / "weights.safetensors").write_text("half")
    return folder


def test_a_checkpoint_becomes_whole_with_its_last_file_and_after_its_log(state: Path) -> None:
    bucket = Memory()
    StoredState(state, bucket).send()
    assert sorted(bucket.order[:2]) == ["identity.json", "log.jsonl"]
    assert ["00000010" in name for name in bucket.order[2:]] == 3 * [True] + 3 * [False]
    assert [name.endswith("progress.json") for name in bucket.order[2:]] == 2 * [False, False, True]
    assert len(bucket.order) == 8, "an unfinished checkpoint is not sent"


def test_only_changes_are_sent_and_what_was_pruned_is_deleted(state: Path) -> None:
    bucket = Memory()
    stored = StoredState(state, bucket)
    stored.send()
    bucket.order.clear()
    (state / "log.jsonl").write_text('{"update": 20}\n{"update": 30}\n')
    checkpoint(state, 30)
    for name in ("progress.json", "optimizer.safetensors", "weights.safetensors"):
        (state / "checkpoints/update-00000010" / name).unlink()
    stored.send()
    assert {name.split("/")[-1] for name in bucket.order} == {
        "log.jsonl", "progress.json", "optimizer.safetensors", "weights.safetensors",
    }  # fmt: skip
    assert len(bucket.order) == 4 and not [name for name in bucket.files if "00000010" in name]
    bucket.order.clear()
    StoredState(state, bucket).send()  # of another process: checkpoints never change
    assert sorted(bucket.order) == ["identity.json", "log.jsonl"]


def test_another_machine_goes_on_from_the_newest_whole_checkpoint(state: Path, tmp_path: Path) -> None:
    bucket = Memory()
    bucket.breaks_after = 7  # all but the last file of update 20
    with pytest.raises(ConnectionError):
        StoredState(state, bucket).send()
    bucket.breaks_after = None
    there = tmp_path / "other" / "state"
    assert StoredState(there, bucket).fetch() == 10
    assert (there / "log.jsonl").read_bytes() == (state / "log.jsonl").read_bytes()
    StoredState(state, bucket).send()
    assert StoredState(there, bucket).fetch() == 20  # it is further
    assert StoredState(there, bucket).fetch() is None


@pytest.mark.parametrize("files", range(8))
def test_a_fetch_that_broke_off_is_made_again(state: Path, tmp_path: Path, files: int) -> None:
    bucket, there = Memory(), tmp_path / "other" / "state"
    StoredState(state, bucket).send()
    bucket.breaks_after = files
    with pytest.raises(ConnectionError):
        StoredState(there, bucket).fetch()
    bucket.breaks_after = None
    assert StoredState(there, bucket).fetch() == 20
    assert {name: (there / name).read_bytes() for name in bucket.files} == bucket.files


def test_state_of_another_training_stays_and_replaces_that_in_the_bucket(state: Path, tmp_path: Path) -> None:
    bucket = Memory()
    StoredState(state, bucket).send()
    other = tmp_path / "other" / "state"
    checkpoint(other, 5)
    (other / "identity.json").write_text('{"identity": {"seed": 2}}')
    stored = StoredState(other, bucket)
    assert stored.fetch() is None
    stored.send()
    assert {name.partition("update-")[2][:8] for name in bucket.files} == {"", "00000005"}


def test_nothing_in_the_bucket_is_nothing_to_fetch(tmp_path: Path) -> None:
    assert StoredState(tmp_path / "state", Memory()).fetch() is None and not (tmp_path / "state").exists()


@pytest.mark.integration
def test_a_bucket_that_is_away_costs_warnings_alone(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    bucket = Memory()
    bucket.breaks_after = 0
    assert run_with_state(StoredState(state, bucket), [sys.executable, "-c", "raise SystemExit(7)"], 60) == 7
    assert capsys.readouterr().err.count("not sent to the bucket: no route to host") == 3
    bucket.breaks_after = None
    assert run_with_state(StoredState(state, bucket), ["sh", "-c", "kill -TERM $$"], 60) == 143
    assert len(bucket.files) == 8


def test_copies_lie_in_the_results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copies = Path(".snakemake/storage/s3/bucket/folder")
    for _ in range(2):
        link_copies(copies, Path("results"))
    (copies / "results" / "text").write_text("x")
    assert Path("results/text").read_text() == "x"
    with pytest.raises(ConfigError, match="expected a folder below"):
        link_copies(copies, tmp_path / "results")
    (copies / "other").mkdir()
    with pytest.raises(ConfigError, match="expected a link to other, got a folder"):
        link_copies(copies, Path("other"))


def test_the_environment_must_name_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("", "bucket", "s3://", "https://bucket", "s3://a b"):
        monkeypatch.setenv("NMT_BUCKET", wrong)
        with pytest.raises(ConfigError, match="NMT_BUCKET: expected s3://BUCKET"):
            check_environment()


@pytest.mark.long
def test_a_real_server_keeps_the_state(s3: None, state: Path, tmp_path: Path) -> None:
    import boto3

    boto3.resource("s3").create_bucket(Bucket="bucket")
    bucket = S3Bucket("s3://bucket/results/runs/t/s/seed1/state")
    StoredState(state, bucket).send()
    there = tmp_path / "other" / "state"
    assert StoredState(there, bucket).fetch() == 20
    for name in bucket.sizes():
        assert (there / name).read_bytes() == (state / name).read_bytes()
    assert json.loads((there / "identity.json").read_text())["identity"] == {"seed": 1}
    with pytest.raises(ConfigError, match="expected an address s3://BUCKET/KEY"):
        S3Bucket("s3://bucket")
