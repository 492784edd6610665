"""Results in a bucket: another machine finds them. On Kubernetes, jobs get what they need, secrets by reference."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from buckets import kubernetes, s3_server
from snakes import ROOT, TABLE, Project, jobs

pytestmark = pytest.mark.long


@pytest.fixture
def server() -> Iterator[dict[str, str]]:
    for package in ("moto.server", "snakemake_storage_plugin_s3"):
        pytest.importorskip(package, reason="python3 envs/install.py dev s3 moto")
    with s3_server() as variables:
        yield variables


def stubbed(folder: Path, server: dict[str, str]) -> Project:
    made = Project(folder, {"one": TABLE})
    stub = f'"{sys.executable}" "{ROOT}/tests/helpers/stub.py"'
    keep = f'if [ "$1" = keep-state ]; then while [ "$1" != -- ]; do shift; done; shift; "$@"; else {stub} "$@"; fi'
    made.env |= {"BASH_FUNC_nmt%%": f"() {{ {keep}; }}", **server}
    return made


def test_another_machine_makes_nothing_again(tmp_path: Path, server: dict[str, str]) -> None:
    first = stubbed(tmp_path / "first", server)
    profile = ["--workflow-profile", str(ROOT / "profiles/s3")]
    done = first.snakemake(*profile)
    assert done.returncode == 0, done.stdout
    assert "Nothing to be done" in first.snakemake(*profile, "-n").stdout
    assert "the-secret" not in done.stdout
    said = subprocess.run(["grep", "-rl", "the-secret", str(first.folder)], capture_output=True, check=False)
    assert said.stdout == b""
    shutil.rmtree(first.folder)
    second = stubbed(tmp_path / "second", server)
    assert set(jobs(second.snakemake(*profile, "-n").stdout)) == {"report", "track_table", "all"}  # its table is newer
    again = second.snakemake(*profile)
    assert again.returncode == 0, again.stdout
    assert (second.folder / "results/runs/one/small/seed1/training.json").is_file()


def test_a_job_of_kubernetes_has_image_memory_and_secrets_by_reference(tmp_path: Path, server: dict[str, str]) -> None:
    pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="python3 envs/install.py dev kubernetes")
    project = stubbed(tmp_path / "project", server)
    project.env |= {"NMT_IMAGE": "registry.example/nmt:1", "KUBECONFIG": str(tmp_path / "kube.yaml")}
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(project.folder), *words], check=True)
    with kubernetes() as (address, posted):
        cluster = {"name": "here", "cluster": {"server": address}}
        context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "here", "clusters": [cluster]}
        config |= {"contexts": [context], "users": [{"name": "me", "user": {"token": "x"}}]}
        Path(project.env["KUBECONFIG"]).write_text(yaml.safe_dump(config))
        options = ["--workflow-profile", str(ROOT / "profiles/kubernetes"), "--retries", "0"]
        said = project.snakemake(*options, "--seconds-between-status-checks", "1")
    assert said.returncode == 1 and "Error in group" in said.stdout, said.stdout  # the cluster says that jobs fail
    ((_, secret), (_, job)) = ((kind, body) for kind, body in posted if kind in ("secrets", "jobs"))
    assert {"aws_secret_access_key", "aws_access_key_id", "nmt_bucket"} <= set(secret["data"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/nmt:1" and "the-secret" not in json.dumps(job)
    assert {"AWS_SECRET_ACCESS_KEY", "NMT_BUCKET"} <= {variable["name"] for variable in container["env"]}
    assert all("valueFrom" in variable for variable in container["env"])
    assert container["resources"]["requests"]["memory"] == "7500M"  # of subwords, in a group with clean and encode
