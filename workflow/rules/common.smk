# Shared by all stages: the checked plan of what to build, paths, and the text around each command.
import os
import signal
import sys
from pathlib import Path

from nmt.config.choices import LANGUAGE, NETWORKS, PAIR
from nmt.plan import commands
from nmt.plan.checks import check_tools
from nmt.plan.closing import requested_tables
from nmt.plan.layout import test_and_pair
from nmt.plan.load import or_exit
from nmt.plan.plan import Plan
from nmt.plan.systems import as_json, experiment
from nmt.system.files import sha256
from nmt.system.buckets.copies import link_copies
from nmt.system.gpus import available

# Targets of tables on the command line; Snakemake gives its targets only after all rules are read.
KINDS = "table_", "comet_", "inputs_"
TARGETS = [target for target in sys.argv[1:] if target.startswith(KINDS) and target != "comet_environment"]
CONFIG_FILE = str(workflow.configfiles[-1]) if workflow.configfiles else "config.yaml"


PLAN = or_exit(Plan.load, config, os.path.relpath(CONFIG_FILE), TARGETS)
if PLAN.settings.container:  # before all rules, which take it over

    container: PLAN.settings.container


LAYOUT = PLAN.layout
# On a cluster a profile says how many (set-threads). Without a number there, each job has one.
CORES = 1 if workflow.remote_exec else workflow.resource_settings.cores or 1
DEVICE = PLAN.settings.device_resources
GPUS = 0 if PLAN.settings.device == "cpu" else len(available())
SHARE = max(1, CORES // max(1, GPUS))  # threads of each job with a GPU: so many run at once
ENVIRONMENT = "../../envs/environment.yaml"
# Whether MLflow follows a training is no parameter: Snakemake would train again when it changes.
TRACKING = LAYOUT.results / "tracking.json"
FOLLOW = f"--tracking {TRACKING}" if PLAN.settings.tracking.live else ""

# A training by several processes: on this machine torchrun starts them, and they share the job's threads. In a SLURM job
# srun starts them, and each task has as many threads as the job asked for.
PROCESSES = PLAN.settings.processes
LAUNCH, THREADS = "", "{threads}"
if PROCESSES > 1 and workflow.remote_exec:
    LAUNCH = f"srun --kill-on-bad-exit=1 --ntasks={PROCESSES} --cpus-per-task={{threads}} "
elif PROCESSES > 1:
    LAUNCH = f"torchrun --standalone --nproc-per-node={PROCESSES} --shutdown-timeout=300 --no-python "
    THREADS = f"$((({{threads}} + {PROCESSES - 1}) / {PROCESSES}))"

# Results in a bucket (docs/how-to/object-storage.md): Snakemake copies files from and to it. Its local copies lie in the
# results folder all the same, so stages also find files that no rule names.
STORAGE = workflow.storage_settings
BUCKET = STORAGE.default_storage_prefix if STORAGE.default_storage_provider else None
COPIES = Path(STORAGE.local_storage_prefix, STORAGE.default_storage_provider or "", (BUCKET or "").partition("://")[2])
# Before a command that needs the state of a training: it is fetched from the bucket, and sent there. A training locks it.
KEEP_STATE = LOCK_STATE = ""
if BUCKET:
    or_exit(link_copies, COPIES, LAYOUT.results)
    run = "runs/{wildcards.table}/{wildcards.system}/seed{wildcards.seed}"
    state = "{params.run}/state", f"{BUCKET}/{LAYOUT.results}/{run}/state"
    KEEP_STATE, LOCK_STATE = (" ".join(commands.keep_state(*state, lock=lock)) + " " for lock in (False, True))

# As a parameter: Snakemake compares only numbers, text and collections with those of the last run.
NOT_COMPARED = Path()

# Jobs find `nmt` beside the Python that runs Snakemake, also where its environment is not activated.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
if PLAN.settings.mirror:
    os.environ.update(NMT_MIRROR=str(PLAN.settings.mirror))
os.environ.update(NMT_WAIT="1")  # a job of a killed workflow may still be at work


# A scheduler's signal goes to every process of a job. `nmt` saves what it has and ends; the others wait for it.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
STAY = "trap '' TERM USR1; "
# Warned of its time limit (128 + SIGUSR1), a job on SLURM goes back into the queue, and later resumes.
REQUEUE = (
    ' || {{ code=$?; if [ $code = 138 ] && [ -n "${{SLURM_JOB_ID:-}}" ]; then '
    'scontrol requeue "$SLURM_JOB_ID" || true; fi; exit $code; }}'
)


def logged(command):
    """The shell text of a command whose output goes to the log."""
    return f"{' '.join(command)} > {{log}} 2>&1"


def shown(command):
    """The shell text of a command whose output goes to the terminal too; `tee -i` outlives Ctrl-C."""
    return f"{' '.join(command)} 2>&1 | tee -i {{log}}"


def resumable(text):
    """The shell text of a job that saves its work when it is stopped."""
    return f"{STAY}{text}{REQUEUE}"


pathvars:
    results=str(PLAN.settings.results),
    logs=f"{PLAN.settings.results}/logs",
    benchmarks=f"{PLAN.settings.results}/benchmarks",


SELECTED = r"(last|best|(epoch|update|average|average-best)-\d+)"


wildcard_constraints:
    corpus=r"[\w.-]+",
    way="back|forward",
    mixture=r"(back|forward)-[0-9a-f]{8}",
    recipe=PAIR + r"-[0-9a-f]{8}(-first\d+)?",
    languages=rf"{LANGUAGE}(-{LANGUAGE})?|\d+pairs-[0-9a-f]{{8}}",
    cleaning=r"clean-[0-9a-f]{8}",
    scores=r"scores-[0-9a-f]{8}",
    subwords=r"[a-z]+\d+-(from-)?[0-9a-f]{8}",
    shard=r"\d+-of-\d+",
    table=r"[\w.-]+",
    system=r"[\w.-]+",
    seed=r"\d+(-\d+)*",
    seeds=r"\d+(-\d+)+",
    backbone="|".join(NETWORKS),
    split=r"[\w.-]+",
    given=r"[\w.-]+-[0-9a-f]{8}",
    selection=rf"{SELECTED}(-and-start)?|start",
    test=r"[\w.-]+",
    pairs=r"\d+",
    decoding=r"[a-z]+\d*-[0-9a-f]{8}",


# Jobs share the chunks of a file: each leaves its chunks beside the output, undeclared, and a marker.
SHARDS = PLAN.settings.shards
# On a cluster, one job prepares a corpus, and one makes a row's model, translations and scores. Shards have their own jobs.
TEXT = "text" if SHARDS.encode == 1 else None
ROW = "row" if SHARDS.decode == 1 else None


def shards_of(wildcards, output, count):
    """Markers of the jobs that share an output; none for such a job itself."""
    if count == 1 or "shard" in wildcards.keys():
        return []
    return [f"{output}.shard-{number}-of-{count}" for number in range(1, count + 1)]


def planned(file):
    """The path of an output as the plan knows it, also of the local copy of a file in a bucket."""
    return str(Path(file).relative_to(COPIES)) if BUCKET else str(file)


def unsharded(wildcards, file):
    """The output that a marker belongs to, or the output itself."""
    return file.removesuffix(f".shard-{wildcards.shard}") if "shard" in wildcards.keys() else file


def shard_option(wildcards):
    """The option of `nmt` for a job that shares an output; else nothing."""
    return f"--shard {wildcards.shard.replace('-of-', '/')}" if "shard" in wildcards.keys() else ""


def system_of(wildcards):
    """The system that a path below runs/ belongs to."""
    return or_exit(PLAN.system, wildcards.table, wildcards.system)


def clean_texts(wildcards):
    """The folders of cleaned text that subwords are learned from and that are encoded: one for each pair of languages."""
    w = wildcards
    folder = f"{LAYOUT.results}/subwords/{w.corpus}/{w.languages}/{w.cleaning}/{w.subwords}"
    return [str(LAYOUT.clean(one)) for one in PLAN.system_for(folder).by_pair]


def pairs_of(wildcards):
    """The pairs of languages that a path of subwords or encoded text stands for."""
    w = wildcards
    return PLAN.system_for(f"{LAYOUT.results}/subwords/{w.corpus}/{w.languages}/{w.cleaning}/{w.subwords}").languages


def parent_of(wildcards):
    """The model directory that a training starts from, or None."""
    return or_exit(PLAN.parent, wildcards.table, wildcards.system, int(wildcards.seed))


def trained_parent(wildcards):
    """The same, if the workflow trains the parent; nothing for a folder, as the configuration has its checksum."""
    return parent_of(wildcards) if PLAN.parent_run(wildcards.table, wildcards.system, int(wildcards.seed)) else []


def test_of(wildcards):
    """The test set of a path of scores, and of a system with several pairs of languages the pair."""
    return test_and_pair(system_of(wildcards), wildcards.test)


def tested(wildcards):
    """The same, with the pair, and with the corpus that holds the test set, which may be another."""
    return or_exit(PLAN.tested, wildcards.table, wildcards.system, *test_of(wildcards))


def texts_of(wildcards):
    """Folders of a test set's raw and cleaned text."""
    return LAYOUT.texts(tested(wildcards), test_of(wildcards)[0])


def inherited(wildcards):
    """A system with inherited subwords, and its parent's folder that has them."""
    path = "/".join([wildcards.corpus, wildcards.languages, wildcards.cleaning, wildcards.subwords])
    return PLAN.inherited_subwords(f"{LAYOUT.results}/subwords/{path}")


def output_of(wildcards):
    """Another system's translations of a test set, whose scores a path holds."""
    return or_exit(PLAN.output, wildcards.table, f"{LAYOUT.runs(wildcards.table)}/{wildcards.given}/{wildcards.test}")


def mixture(wildcards):
    """What raw text with added pairs is made from."""
    return PLAN.mixture(f"{LAYOUT.results}/corpora/{wildcards.corpus}-{wildcards.mixture}/{wildcards.languages}/raw")


def pair_scores(wildcards):
    """The text and the models that scores of training pairs are made from."""
    w = wildcards
    return or_exit(PLAN.pair_scores, f"{LAYOUT.results}/corpora/{w.corpus}/{w.languages}/{w.scores}.txt")


def translation(wildcards):
    """What translations of a text to add are made from."""
    folder = f"{LAYOUT.results}/{wildcards.way}-translated/{wildcards.recipe}"
    return or_exit(PLAN.translation, folder)


def tracked_tables():
    """The tables of which this run trains a system, or publishes a run."""
    rules = ("train", "track", "track_table")
    return sorted({job.wildcards.table for job in workflow.dag.needrun_jobs() if job.rule.name in rules})
