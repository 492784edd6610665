# What every stage shares: the checked plan of what is to be made, and where things are.
import os
import shlex
import signal
import sys
from pathlib import Path

from nmt.config.choices import NETWORKS
from nmt.system.gpus import available
from nmt.plan.plan import Plan, dump, experiment, or_exit, table_path

# Targets of the command line below; Snakemake gives its targets only after all rules are read.
TARGETS = [argument for argument in sys.argv[1:] if argument.startswith(("table_", "inputs_"))]
CONFIG_FILE = str(workflow.configfiles[-1]) if workflow.configfiles else "config.yaml"


PLAN = or_exit(Plan.load, config, os.path.relpath(CONFIG_FILE), TARGETS)
LAYOUT = PLAN.layout
# On a cluster a profile says how many (set-threads); what is not said there is one, for who submits and for the job.
CORES = 1 if workflow.remote_exec else workflow.resource_settings.cores or 1
GPUS = 0 if PLAN.settings.device == "cpu" else len(available())
SHARE = max(1, CORES // max(1, GPUS))  # threads of each job with a GPU: so many run at once
ENVIRONMENT = "../../envs/environment.yaml"
# Whether MLflow follows a training is no parameter: Snakemake would train again when it changes.
TRACKING = LAYOUT.results / "tracking.json"
FOLLOW = f"--tracking {TRACKING}" if PLAN.settings.tracking.live else ""

# A training by several processes: on this machine torchrun starts them, and shares out the job's threads; in a SLURM
# job srun does, and each task has as many threads as the job asked for.
PROCESSES = PLAN.settings.processes
LAUNCH, THREADS = "", "{threads}"
if PROCESSES > 1 and workflow.remote_exec:
    LAUNCH = f"srun --kill-on-bad-exit=1 --ntasks={PROCESSES} --cpus-per-task={{threads}} "
elif PROCESSES > 1:
    LAUNCH = f"torchrun --standalone --nproc-per-node={PROCESSES} --shutdown-timeout=300 --no-python "
    THREADS = f"$((({{threads}} + {PROCESSES - 1}) / {PROCESSES}))"

# Jobs find `nmt` beside the Python that runs Snakemake, also where its environment is not activated.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
if PLAN.settings.mirror:
    os.environ.update(NMT_MIRROR=str(PLAN.settings.mirror))


# A scheduler's signal goes to every process of a job. `nmt` saves what it has and ends; the others wait for it.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
STAY = "trap '' TERM USR1; "
# Warned of its time limit (128 + SIGUSR1), a job on SLURM goes back into the queue, and goes on from what it saved.
REQUEUE = (
    ' || {{ code=$?; if [ $code = 138 ] && [ -n "${{SLURM_JOB_ID:-}}" ]; then '
    'scontrol requeue "$SLURM_JOB_ID" || true; fi; exit $code; }}'
)


pathvars:
    results=str(PLAN.settings.results),
    logs=f"{PLAN.settings.results}/logs",
    benchmarks=f"{PLAN.settings.results}/benchmarks",


wildcard_constraints:
    corpus=r"[\w.-]+",
    way="back|forward",
    mixture=r"(back|forward)-[0-9a-f]{8}",
    recipe=r"[a-z]{2,3}-[a-z]{2,3}-[0-9a-f]{8}(-first\d+)?",
    languages=r"[a-z]{2,3}(-[a-z]{2,3})?",
    cleaning=r"clean-[0-9a-f]{8}",
    subwords=r"[a-z]+\d+-[0-9a-f]{8}",
    shard=r"\d+-of-\d+",
    table=r"[\w.-]+",
    system=r"[\w.-]+",
    seed=r"\d+(-\d+)*",
    seeds=r"\d+(-\d+)+",
    backbone="|".join(NETWORKS),
    split=r"[\w.-]+",
    selection=r"last|best|(epoch|update|average|average-best)-\d+",
    test=r"[\w.-]+",
    pairs=r"\d+",
    decoding=r"[a-z]+\d*-[0-9a-f]{8}",


# A file's chunks are shared out among so many jobs, which leave them beside its output, undeclared, and a marker each.
SHARDS = PLAN.settings.shards
# On a cluster: one job makes a corpus ready, one a row's model, translations and scores. Shards are jobs of their own.
TEXT = "text" if SHARDS.encode == 1 else None
ROW = "row" if SHARDS.decode == 1 else None


def shards_of(output, count):
    """Markers of the jobs that share out an output."""
    return [f"{output}.shard-{number}-of-{count}" for number in range(1, count + 1)] if count > 1 else []


def sharded(marker):
    """The output that a marker belongs to, and the shard as `nmt` is given it."""
    output, _, shard = marker.rpartition(".shard-")
    return output, shard.replace("-of-", "/")


def system_of(wildcards):
    """The system that a path below runs/ belongs to."""
    return or_exit(PLAN.system, wildcards.table, wildcards.system)


def tested(wildcards):
    """The same, with the corpus that holds the test set: its text may be another corpus's."""
    return or_exit(PLAN.tested, wildcards.table, wildcards.system, wildcards.test)


def texts_of(wildcards):
    """Folders of a test set's raw and cleaned text."""
    return LAYOUT.texts(tested(wildcards), wildcards.test)


def images_option(places):
    """That option of `nmt` which names image features, quoted; none where there are none."""
    return [f"--images {shlex.quote(str(place))}" for place in places]


def mixed(wildcards):
    """A folder of raw text with added pairs, as its path has it."""
    return f"{LAYOUT.results}/corpora/{wildcards.corpus}-{wildcards.mixture}/{wildcards.languages}/raw"


def translation(wildcards):
    """What a model, text and decoding make the translations of a path."""
    folder = f"{LAYOUT.results}/{wildcards.way}-translated/{wildcards.recipe}"
    return or_exit(PLAN.translation, folder)
