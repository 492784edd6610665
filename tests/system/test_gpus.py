"""Which GPUs a process sees, and that no two take the same one; the GPUs are faked."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from snakes import ROOT, Project

from nmt.system.errors import ConfigError
from nmt.system.gpus import PER_GPU, VISIBLE, available, claim_gpu

LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa-1)
  MIG 1g.5gb Device 0: (UUID: MIG-cccc-3)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb-2)"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that shows two GPUs, and locks of this test's own."""
    driver = tmp_path / "bin" / "nvidia-smi"
    driver.parent.mkdir()
    driver.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTED}\nEND\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", f"{driver.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


CASES: dict[str | None, dict[str, str]] = {
    None: {"GPU-aaaa-1": "GPU-aaaa-1", "GPU-bbbb-2": "GPU-bbbb-2"},
    "1": {"1": "GPU-bbbb-2"},
    "0, 7": {"0": "GPU-aaaa-1", "7": "7"},
    "MIG-cccc-3": {"MIG-cccc-3": "MIG-cccc-3"},
    "": {},
    "-1": {},
    "NoDevFiles": {},
}


@pytest.mark.parametrize("visible", CASES)
def test_gpus_are_those_that_cuda_shows(two_gpus: None, monkeypatch: pytest.MonkeyPatch, visible: str | None) -> None:
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert available() == CASES[visible]


def test_without_a_driver_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert available() == {}
    with claim_gpu("auto"):
        assert VISIBLE not in os.environ


@pytest.fixture
def holder() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts processes that take a GPU, say which, and hold it until their input ends."""
    started: list[subprocess.Popen[str]] = []
    code = (
        "import os, sys; from nmt.system.gpus import claim_gpu\n"
        f"with claim_gpu('auto'): print(os.environ['{VISIBLE}'], flush=True); sys.stdin.read()"
    )

    def start() -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([sys.executable, "-c", code], text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(stream: object) -> str:
    return stream.readline().strip()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.integration
def test_a_third_process_waits_for_the_gpu_of_one_that_was_killed(
    two_gpus: None, holder: Callable[[], subprocess.Popen[str]]
) -> None:
    first, second = holder(), holder()
    assert {line(first.stdout), line(second.stdout)} == {"GPU-aaaa-1", "GPU-bbbb-2"}
    third = holder()
    assert line(third.stderr) == "nmt: 2 GPU(s), all in use by other nmt processes; waiting for one"
    second.kill()
    assert line(third.stdout) in {"GPU-aaaa-1", "GPU-bbbb-2"}


@pytest.mark.integration
def test_processes_share_gpus_where_that_is_asked_for(
    two_gpus: None, holder: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PER_GPU, "2")
    first = {line(holder().stdout) for _ in range(2)}
    assert first == {"GPU-aaaa-1", "GPU-bbbb-2"}  # apart while there is room
    assert {line(holder().stdout) for _ in range(2)} == first
    assert "2 GPU(s), all in use" in line(holder().stderr)
    monkeypatch.setenv(PER_GPU, "none")
    with pytest.raises(ConfigError, match="NMT_PER_GPU: expected a number of processes from 1, got 'none'"):
        claim_gpu("auto").__enter__()


def test_locks_are_in_a_folder_of_the_users_own(
    two_gpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / f"nmt-gpus-{os.getuid()}", tmp_path / "elsewhere"
    with claim_gpu("auto"):
        assert [path.name for path in folder.iterdir()] == ["GPU_aaaa_1"] and folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv(VISIBLE)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="expected a folder of your own with mode 700, got drwxrwxrwx"):
        claim_gpu("auto").__enter__()
    shutil.rmtree(folder)
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="got lrwxrwxrwx of user"):
        claim_gpu("auto").__enter__()
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("given", [{"device": "cpu"}, {"rank": "0"}])
def test_the_cpu_and_processes_of_one_training_take_none(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    if "rank" in given:
        monkeypatch.setenv("LOCAL_RANK", given["rank"])
    with claim_gpu(given.get("device", "auto")):
        assert VISIBLE not in os.environ


TRAIN = """
import json, os, sys, time
from pathlib import Path
from nmt.system.gpus import claim_gpu
run = Path(sys.argv[3])
run.mkdir(parents=True, exist_ok=True)
with claim_gpu("auto"):
    begun = time.time()
    time.sleep(1)
    span = [os.environ["CUDA_VISIBLE_DEVICES"], begun, time.time(), sys.argv[sys.argv.index("--threads") + 1]]
(run / "log.jsonl").write_text("")
(run / "training.json").write_text(json.dumps(span))
"""


@pytest.mark.integration
def test_the_workflow_never_runs_two_trainings_on_one_gpu(two_gpus: None, tmp_path: Path) -> None:
    system = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 2}}
    names = [f"s{number}" for number in range(4)]
    table = {
        "caption": "Four trainings",
        "tests": ["test"],
        "systems": {name: {**system, "training": {"updates": n}} for n, name in enumerate(names, 1)},
        "rows": [{"label": name, "system": name} for name in names],
    }
    project = Project(tmp_path / "project", {"four": table}, device="auto")
    (tmp_path / "train.py").write_text(TRAIN)
    project.env["BASH_FUNC_nmt%%"] = (
        f'() {{ if [ "$1" = train ]; then "{sys.executable}" "{tmp_path}/train.py" "$@"; '
        f'else "{sys.executable}" "{ROOT}/tests/helpers/stub.py" "$@"; fi; }}'
    )
    targets = [f"results/runs/four/{name}/seed1/training.json" for name in names]
    started = time.time()
    done = project.snakemake("--cores", "8", *targets)
    assert done.returncode == 0, done.stdout
    spans = [json.loads((project.folder / target).read_text()) for target in targets]
    assert {span[0] for span in spans} == {"GPU-aaaa-1", "GPU-bbbb-2"} and all(span[1] > started for span in spans)
    assert {span[3] for span in spans} == {"4"}  # the cores are shared out too
    for one, other in itertools.combinations(spans, 2):
        assert one[0] != other[0] or one[2] <= other[1] or other[2] <= one[1]
