"""Commands that make models."""

from pathlib import Path

import click

from nmt.cli.options import (
    OUTPUT,
    PATH,
    SEED,
    PositiveNumber,
    check_run_name,
    config_option,
    device_options,
    load_settings,
)


@click.command()
@click.argument("encoded", type=PATH)
@click.argument("run", type=PATH)
@config_option
@click.option("--seed", type=SEED, default=1, help="Seed of all random numbers.")
@click.option(
    "--name", default="custom/system", metavar="TABLE/SYSTEM", callback=check_run_name, help="Name of the run."
)
@click.option(
    "--tracking",
    type=PATH,
    show_default="no tracking",
    help="tracking.json of `nmt track prepare`: a process of its own feeds MLflow during the training.",
)
@click.option(
    "--images",
    type=PATH,
    show_default="none, for a text-only model",
    help="Folder of the image features train.npy and valid.npy, for a multimodal model.",
)
@click.option(
    "--word-vectors",
    multiple=True,
    metavar="SIDE=FILE",
    show_default="random embeddings",
    help="Word vectors that the embeddings start from; SIDE is source or target. Can be given for each side.",
)
@click.option(
    "--initialise",
    type=PATH,
    metavar="FOLDER",
    show_default="random weights",
    help="Model directory whose weights the training starts from. Without model: in --config, its model is taken.",
)
@click.option(
    "--alignments",
    type=PATH,
    show_default="none",
    help="Word alignments of the training text in Pharaoh format, a line for each pair, for training.guided_alignment.",
)
@device_options
def train(
    encoded: Path,
    run: Path,
    settings: str,
    seed: int,
    name: str,
    tracking: Path | None,
    images: Path | None,
    word_vectors: tuple[str, ...],
    initialise: Path | None,
    alignments: Path | None,
    device: str,
    threads: int | None,
) -> None:
    """Train a model on the folder ENCODED; writes checkpoints and logs into the folder RUN. Run again, it resumes.

    To train with several processes: torchrun --standalone --nproc-per-node 2 -m nmt train …, or
    srun -n 2 nmt train …; each process takes as many threads as --threads says.
    """
    from nmt.system.gpus import claim_gpu
    from nmt.system.warnings import recorded
    from nmt.tracking.follow import start_follower
    from nmt.training.distributed import rank_and_size, set_torchrun_variables
    from nmt.training.experiment import Experiment
    from nmt.training.train import train as train_model
    from nmt.training.word_vectors import parse_files

    set_torchrun_variables()  # `claim_gpu` reads them too
    vectors = parse_files(word_vectors)
    experiment, (rank, _) = load_settings(Experiment, settings), rank_and_size()
    if tracking and rank == 0:
        start_follower(run, tracking, name, seed)
    with claim_gpu(device), recorded("train", run / "training.json" if rank == 0 else None):
        train_model(encoded, run, experiment, seed, device, threads, name, images, vectors, initialise, alignments)


@click.command()
@click.argument("run", type=PATH)
@click.argument("model", type=OUTPUT)
@click.option(
    "--at",
    default="best",
    help="Checkpoints: last | best | epoch 16 | update 4000 | average 10 | average best 5 | start (the weights of "
    "--start). 'best and start', and so on: the mean of both.",
)
@click.option("--encoded", type=PATH, required=True, help="Folder of the encoded corpus of the training.")
@click.option(
    "--start",
    type=PATH,
    show_default="none",
    help="Model directory that the training started from (nmt train --initialise).",
)
def average(run: Path, model: Path, at: str, encoded: Path, start: Path | None) -> None:
    """Average the checkpoints of the training RUN that --at selects; writes the model directory MODEL."""
    from nmt.config.selection import check_selection
    from nmt.system.warnings import recorded
    from nmt.training.average import average as average_checkpoints

    check_selection(at)
    with recorded("average", model):
        average_checkpoints(run, encoded, at, model, start)


@click.command()
@click.argument("models", type=PATH, nargs=-1, required=True)
@click.argument("out", type=OUTPUT)
def ensemble(models: tuple[Path, ...], out: Path) -> None:
    """Join the model directories MODELS into one, OUT, that translates by the mean of their probabilities."""
    from nmt.system.warnings import recorded
    from nmt.training.average import ensemble as join_models

    with recorded("ensemble", out):
        join_models(models, out)


@click.command("keep-state", context_settings={"ignore_unknown_options": True})
@click.argument("state", type=PATH)
@click.argument("url")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--every", type=PositiveNumber(), default=60.0, help="Seconds between two looks at STATE while the command runs."
)
@click.option("--lock", is_flag=True, help="Refuse to run while another machine has the lock URL.lock.")
def keep_state(state: Path, url: str, command: tuple[str, ...], every: float, lock: bool) -> None:
    """Run COMMAND, and keep the folder STATE of a training also at URL, s3://BUCKET/KEY.

    The state is fetched first if it is missing here, and sent while the command runs. Write -- before the command.
    boto3 finds address and credentials in the environment.
    """
    from nmt.system.buckets.lease import Lease, S3Object
    from nmt.system.buckets.state import S3Bucket, StoredState, run_with_state

    stored, place = StoredState(state, S3Bucket(url)), f"{url.rstrip('/')}.lock"
    raise SystemExit(run_with_state(stored, command, every, Lease(S3Object(place), place) if lock else None))
