# Several workflows at once on one results folder, from one folder or from several (nmt/plan/claims.py).
import logging

from nmt.plan.claims import Claims
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

# Before the plan, also of a dry run: links to what a shared results folder has.
if workflow.is_main_process and (PLAN.settings.shared_results or "NMT_SHARED_RESULTS" in os.environ):
    from nmt.reproduce.overlay import link_shared

    or_exit(link_shared, PLAN, {*PLAN.settings.tables, *(name.partition("_")[2] for name in TARGETS)})

CLAIMS = Claims(LAYOUT.results)
FINISHED = set()  # ids of jobs


def unfinished():
    """The files that jobs of this workflow still read and write."""
    jobs = [job for job in workflow.dag.needrun_jobs() if job.jobid not in FINISHED]
    return CLAIMS.files((file for job in jobs for file in job.input), (file for job in jobs for file in job.output))


def claim_files():
    """Wait until no other workflow uses the files of this one. Plan again if another one has made some of them."""
    if not or_exit(CLAIMS.take, unfinished()):
        print("nmt: another workflow has made files of this one; planning again", file=sys.stderr)
        sys.stdout.flush()
        os.chdir(workflow.rundir)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class Release(logging.Handler):
    """Releases the files of each job that has finished."""

    def emit(self, record):
        if getattr(record, "event", None) == LogEvent.JOB_FINISHED:
            FINISHED.add(record.job_id)
            CLAIMS.keep(unfinished())


if workflow.is_main_process:
    logger.addHandler(Release())
