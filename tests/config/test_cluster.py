"""cluster.yaml, and what the SLURM profile makes of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snakes import ROOT

from nmt.config.cluster import Cluster
from nmt.config.yaml import load, parse
from nmt.system.errors import ConfigError


def test_the_file_that_comes_with_the_project_leaves_all_to_the_cluster() -> None:
    assert load(Cluster, ROOT / "cluster.yaml") == Cluster()
    assert Cluster().every_job == {} and Cluster().gpu_job == {"gpu": 0}


def test_jobs_ask_for_what_the_file_says() -> None:
    text = "{account: abc-123, partition: '42', gpu: {gres: 'gpu:a100:2', partition: big, constraint: 'a100|h100'}}"
    cluster = parse(Cluster, text, "cluster.yaml")
    assert cluster.every_job == {"slurm_account": "'abc-123'", "slurm_partition": "'42'"}
    expected = {"gpu": 0, "gres": "'gpu:a100:2'", "slurm_partition": "'big'", "constraint": "'a100|h100'"}
    assert cluster.gpu_job == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acount: x", "line 1: acount: unknown key; did you mean 'account'?"),
        ("account: a; rm -rf x", 'account: expected letters, digits, _ . , + -, got "a; rm -rf x"'),
        ("partition: $(id)", 'partition: expected letters, digits, _ . , + -, got "$(id)"'),
        ("gpu: {gres: a100}", 'gpu.gres: expected gpu:1, or with the model gpu:a100:1, got "a100"'),
        ('constraint: "\'; id"', "constraint: expected features as sbatch --constraint has them"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(Cluster, text, "cluster.yaml")
    assert message in str(error.value)


def snakemake(folder: Path) -> subprocess.CompletedProcess[str]:
    """Snakemake's own reading of the profile, without a cluster."""
    code = (
        "import sys; from snakemake.cli import parse_args\n"
        f"_, args = parse_args(['--snakefile', '{ROOT}/Snakefile', '--workflow-profile', 'slurm'])\n"
        "print(args.executor, args.default_resources.args, args.set_resources['train'].args)"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.integration
def test_snakemake_reads_the_profile_with_the_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("{account: mine, gpu: {}}")
    done = snakemake(tmp_path)
    assert done.returncode == 0, done.stderr
    executor, default, train = done.stdout.strip().replace(" [", "|[").split("|")
    assert executor == "slurm"
    assert "slurm_account='mine'" in default and "mem_mb=2000 * attempt" in default
    assert "gres='gpu:1'" in train and "gpu=0" in train and "mem_mb=7500 * attempt" in train


@pytest.mark.integration
def test_a_wrong_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("acount: mine")
    done = snakemake(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("snakemake: cluster.yaml, line 1: acount: unknown key")
    assert "usage:" not in done.stderr


def test_the_profile_names_rules_that_there_are() -> None:
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    stages = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    rules = set(re.findall(r"^(?:rule|use rule \w+ as) (\w+)", stages, re.M))
    assert set(profile["set-threads"]) | set(profile["set-resources"]) <= rules


def test_both_profiles_agree_on_what_runs_again() -> None:
    slurm, default = (
        yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text()) for name in ("slurm", "default")
    )
    shared = ["rerun-triggers", "rerun-incomplete", "keep-going", "show-failed-logs", "printshellcmds"]
    assert {key: slurm[key] for key in shared} == {key: default[key] for key in shared}
