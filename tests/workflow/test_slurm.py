"""The workflow on a SLURM cluster of two nodes, which is started for these tests and stopped after them.

NMT_SLURM names the folder of the two scripts that do so: ``slurm-up.sh DIR NODES`` starts a cluster and writes
``DIR/slurm.conf``; ``slurm-down.sh DIR`` stops it.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from snakes import ROOT, Project

from nmt.config.system import System
from nmt.plan.systems import experiment

SCRIPTS = os.environ.get("NMT_SLURM")
LINK = Path("/etc/slurm/slurm.conf")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SCRIPTS is None, reason="NMT_SLURM (a folder with slurm-up.sh and slurm-down.sh) is not set"),
    pytest.mark.skipif(os.getuid() != 0, reason="starting a cluster needs root"),
    pytest.mark.timeout(900),
]
CLAIMS = {  # what each node says that it has; nothing checks it
    "CLUSTER_CPUS": "8", "CLUSTER_MEM_MB": "64000", "CLUSTER_GPUS": "1", "CLUSTER_SACCT": "1", "CLUSTER_PORT": "17817",
}  # fmt: skip
UPDATES, LONG = 200, 12_000  # more than a minute of updates, on fast machines too
LENGTHY = {"updates": UPDATES, "checkpoint_every": "10 updates", "validate_every": f"{UPDATES} updates", "keep_last": 1}
SHORT = {"updates": 20, "validate_every": "10 updates", "schedule": {"peak": 0.003, "warmup": 10}}
COMMON = {"batch": "512 tokens", "validation_bleu": False}
NAMES = ("left_alone", "cancelled", "warned")


def tables() -> dict[str, Any]:
    """The scenes table with less training, and one that trains the same system thrice, for longer."""
    scenes = yaml.safe_load((ROOT / "workflow/tables/scenes.yaml").read_text())
    tiny = scenes["systems"]["tiny"]
    tiny |= {"subwords": {"size": 300}, "model": {"layers": 1, "width": 32, "ffn": 64, "heads": 2, "dropout": 0}}
    tiny |= {"training": COMMON | SHORT}
    scenes["rows"] = [row | {"decoding": {"beam": 1, "length_factor": 1.0}} for row in scenes["rows"]]
    scenes["figures"] = ["loss", "learning-rate"]
    disturbed = {
        "caption": "One training, left alone, cancelled and warned of its time limit",
        "tests": ["test"],
        "systems": {name: tiny | {"training": COMMON | LENGTHY} for name in NAMES},
        "rows": [{"label": name, "system": name, "at": "last"} for name in NAMES],
        "figures": ["loss"],
    }
    return {"scenes": scenes, "disturbed": disturbed}


@dataclass(frozen=True)
class Cluster:
    """A running cluster, asked through SLURM's own commands."""

    folder: Path

    def up(self) -> None:
        """Start it, or what has ended of it."""
        subprocess.run([f"{SCRIPTS}/slurm-up.sh", str(self.folder), "2"], env={**os.environ, **CLAIMS}, check=True)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def say(self, *command: str) -> str:
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True).stdout

    def jobs(self) -> list[dict[str, str]]:
        """What SLURM remembers of every job so far, in the order of their numbers."""
        lines = self.say("scontrol", "show", "job", "--oneliner").splitlines()
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines if line.startswith("JobId=")]

    def of_rule(self, rule: str, wildcards: str = "") -> list[dict[str, str]]:
        return [
            job
            for job in self.jobs()
            if re.match(rf"(rule|group)_{rule}", job["Comment"]) and wildcards in job["Comment"]
        ]


def processes(*variables: str) -> dict[int, str]:
    """Numbers and names of all processes that have these variables."""
    found = {}
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if {variable.encode() for variable in variables} <= set(environment.read_bytes().split(b"\0")):
                found[int(environment.parent.name)] = (environment.parent / "comm").read_text().strip()
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert SCRIPTS is not None
    if LINK.exists():
        pytest.fail(f"{LINK} belongs to a cluster that is here already; stop that one first")
    folder = tmp_path_factory.mktemp("cluster")
    try:
        started = Cluster(folder)
        started.up()
        with (folder / "slurm.conf").open("a") as settings:
            settings.write("SlurmdTimeout=10\n")  # a node that is silent for so long is down; five minutes else
        started.say("scontrol", "reconfigure")
        yield started
    finally:
        subprocess.run([f"{SCRIPTS}/slurm-down.sh", str(folder)], check=True)
    assert processes(f"SLURM_CONF={folder}/slurm.conf") == {}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("project"), tables(), limit=100)
    made.write("cluster.yaml", {"account": "test", "partition": "main", "gpu": {"gres": "gpu:1"}})
    return made


def start(cluster: Cluster, project: Project, *arguments: str) -> subprocess.Popen[str]:
    """Snakemake with the project's own profile, looking after its jobs more often than that says."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--workflow-profile", "slurm"]
    quick = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
    return subprocess.Popen(
        [*command, *arguments, *quick], cwd=project.folder, env=cluster.env | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def wait_for(what: Callable[[], Any], seconds: float = 300) -> Any:
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"waited {seconds} s"
        time.sleep(0.2)
    return found


def test_the_scenes_table(cluster: Cluster, project: Project) -> None:
    process = start(cluster, project, "table_scenes", "--set-threads", "train=1")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    results = project.folder / "results"
    assert (results / "tables/scenes.html").stat().st_size > 0
    jobs = cluster.jobs()
    ran = ["rule_text_clean_encode_subwords", "rule_train_wildcards_scenes_tiny_1", "rule_row_average_decode_score"]
    assert [job["Comment"] for job in jobs] == ran
    (training,) = cluster.of_rule("train")
    assert "cpu=1,mem=7500M" in training["TRES"] and "gres/gpu=1" in training["TRES"]
    assert (training["Account"], training["Partition"], training["TimeLimit"]) == ("test", "main", "1-00:00:00")
    asked = ["--noheader", "--allocations", "--parsable2", "--format=State,ExitCode"]
    kept = cluster.say("sacct", *asked, f"--jobs={','.join(job['JobId'] for job in jobs)}")
    assert kept.splitlines() == ["COMPLETED|0:0"] * 3
    marker = json.loads((results / "runs/scenes/tiny/seed1/tracked.json").read_text())
    assert marker["status"] == "published" and marker["uri"].startswith("sqlite:")


def test_trainings_that_are_cancelled_or_warned_end_as_one_left_alone(cluster: Cluster, project: Project) -> None:
    runs = {name: project.folder / f"results/runs/disturbed/{name}/seed1" for name in NAMES}
    targets = [f"{run.relative_to(project.folder)}/training.json" for run in runs.values()]
    process = start(
        cluster, project, *targets, "--set-resources", "train:mem_mb=1000", "train:gpu=0", "--set-threads", "train=1"
    )
    for name, command in (("cancelled", ["scancel"]), ("warned", ["scancel", "--signal=USR1"])):
        wait_for(lambda name=name: list(runs[name].glob("state/checkpoints/update-*")))
        (running,) = cluster.of_rule("train", name)
        cluster.say(*command, running["JobId"])
    wait_for(lambda: let_go(cluster, running["JobId"]))
    output, _ = process.communicate()
    assert process.returncode == 0, output
    ends = {name: [(job["JobState"], job["Restarts"]) for job in cluster.of_rule("train", name)] for name in runs}
    assert ends == {
        "left_alone": [("COMPLETED", "0")],
        "cancelled": [("CANCELLED", "0"), ("COMPLETED", "0")],
        "warned": [("COMPLETED", "1")],
    }
    last = f"state/checkpoints/update-{UPDATES:08}/weights.safetensors"
    weights = {name: load_file(run / last) for name, run in runs.items()}
    for name in ("cancelled", "warned"):
        records = map(json.loads, (runs[name] / "log.jsonl").read_text().splitlines())
        starts = [record["update"] for record in records if record["event"] == "start"]
        assert len(starts) == 2 and 0 < starts[1] < UPDATES
        for key, value in weights["left_alone"].items():
            assert torch.equal(value, weights[name][key]), f"{name}: {key}"


def submit(cluster: Cluster, project: Project, name: str, training: dict[str, Any], *options: str) -> tuple[str, Path]:
    """Hand in a training of the scenes by hand, as the workflow's rule has it; returns the job's number and its run."""
    (encoded,) = [path.parent for path in (project.folder / "results/encoded").rglob("meta.json")]
    run = project.folder / "by-hand" / name
    system = System.model_validate(tables()["disturbed"]["systems"]["left_alone"] | {"training": COMMON | training})
    train = ["--device=cpu", "--threads=1", f"--config={experiment(system)}"]
    command = shlex.join(
        ["srun", "--kill-on-bad-exit=1", sys.executable, "-m", "nmt", "train", str(encoded), str(run), *train]
    )
    again = '|| { code=$?; [ $code = 138 ] && scontrol requeue "$SLURM_JOB_ID"; exit $code; }'
    run.mkdir(parents=True)
    script = run / "job.sh"
    script.write_text(f"#!/bin/bash\ntrap '' TERM USR1\n{command} {again}\n")
    where = ["--parsable", "--requeue", "--account=test", "--mem=2000", f"--output={run}/said", "--open-mode=append"]
    return cluster.say("sbatch", *where, *options, str(script)).strip(), run


def job(cluster: Cluster, number: str) -> dict[str, str]:
    (found,) = [job for job in cluster.jobs() if job["JobId"] == number]
    return found


def let_go(cluster: Cluster, number: str) -> bool:
    """Whether a job that was put back into the queue will start in seconds; SLURM would hold it back for two minutes.

    Not at once: a node refuses for a moment what it has just been told to end, and the job would count as failed.
    """
    waiting = job(cluster, number)
    if waiting["JobState"] != "PENDING" or waiting["StartTime"] == "Unknown":
        return False
    if datetime.fromisoformat(waiting["StartTime"]) > datetime.now() + timedelta(seconds=10):
        cluster.say("scontrol", "update", f"JobId={number}", "StartTime=now+5")
    return True


def ended(cluster: Cluster, number: str) -> bool:
    """Whether a job is over; one that was put back into the queue is let go soon."""
    state = job(cluster, number)
    if int(state["Restarts"]):
        let_go(cluster, number)
    return state["JobState"] in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / f"state/checkpoints/update-{UPDATES:08}/weights.safetensors")


def events(run: Path, event: str, key: str) -> list[Any]:
    records = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [record[key] for record in records if record["event"] == event]


@pytest.fixture(scope="module")
def alone(project: Project) -> Path:
    """The run of one process that nothing disturbed."""
    return project.folder / "results/runs/disturbed/left_alone/seed1"


def test_a_training_on_two_nodes(cluster: Cluster, project: Project, alone: Path) -> None:
    number, run = submit(cluster, project, "two", LENGTHY, "--nodes=2", "--ntasks=2")
    wait_for(lambda: ended(cluster, number))
    assert job(cluster, number)["JobState"] == "COMPLETED", (run / "said").read_text()
    step = cluster.say("sacct", "-n", "-P", f"--jobs={number}.0", "--format=State,ExitCode,NNodes,NTasks,NodeList")
    assert step.strip() == "COMPLETED|0:0|2|2|node[1-2]"
    assert json.loads((run / "training.json").read_text())["hardware"]["processes"] == 2
    losses = zip(events(run, "train", "loss"), events(alone, "train", "loss"), strict=True)
    assert max(abs(two / one - 1) for two, one in losses) < 1e-4


def die(cluster: Cluster, number: str) -> None:
    """End what runs on the node of a job as if its power had failed: slurmd, and all of the job."""
    node = job(cluster, number)["NodeList"]
    os.kill(int((cluster.folder / f"run/slurmd-{node}.pid").read_text()), signal.SIGKILL)
    stepds = [int(line.parent.name) for line in Path("/proc").glob("[0-9]*/cmdline") if said(line, number)]
    for process in [*stepds, *processes(f"SLURM_JOB_ID={number}", f"SLURM_CONF={cluster.folder}/slurm.conf")]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def said(line: Path, number: str) -> bool:
    """Whether a process is what SLURM runs on a node to look after a job."""
    try:
        return line.read_bytes().startswith(f"slurmstepd: [{number}.".encode())
    except OSError:
        return False


def test_a_node_that_dies(cluster: Cluster, project: Project, alone: Path) -> None:
    number, run = submit(cluster, project, "dying", LENGTHY)
    wait_for(lambda: list(run.glob("state/checkpoints/update-*")))
    die(cluster, number)
    wait_for(lambda: int(job(cluster, number)["Restarts"]))
    wait_for(lambda: ended(cluster, number))
    assert job(cluster, number)["JobState"] == "COMPLETED", (run / "said").read_text()
    asked = "sacct", "-n", "-P", "-X", "--duplicates", f"--jobs={number}", "--format=State"
    wait_for(lambda: cluster.say(*asked).split("\n")[:2] == ["NODE_FAIL", "COMPLETED"])  # told a moment later
    assert 0 < events(run, "start", "update")[1] < UPDATES
    for key, value in weights(alone).items():
        assert torch.equal(value, weights(run)[key]), key
    cluster.up()


def test_a_training_longer_than_its_time_limit(cluster: Cluster, project: Project) -> None:
    long = LENGTHY | {"updates": LONG, "checkpoint_every": f"{LONG} updates", "validate_every": f"{LONG} updates"}
    number, run = submit(cluster, project, "long", long, "--time=2", "--signal=USR1@60")
    wait_for(lambda: ended(cluster, number), 1500)
    found = job(cluster, number)
    assert (found["JobState"], found["TimeLimit"]) == ("COMPLETED", "00:02:00"), (run / "said").read_text()
    starts = events(run, "start", "update")
    assert len(starts) == int(found["Restarts"]) + 1 > 1
    assert starts == sorted(set(starts)) and (run / "training.json").exists()
