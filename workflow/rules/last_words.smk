# The end of a run: the tables, where to look at everything, and last the warnings of all that the tables are made from.
# Snakemake calls no hook when nothing is to be done. Its message then calls the last words.
import logging

from nmt.plan.closing import check_strict, closing_words, forget_failed, requested_warnings, warning_lines
from nmt.system.errors import DataError
from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake.logging import logger


def last_words(*words):
    """Print words and all warnings; exit with an error if the settings forbid warnings."""
    try:
        warnings = requested_warnings(PLAN, TARGETS)
        print(*words, *warning_lines(warnings), sep="\n", flush=True)
        forget_failed(PLAN, TARGETS)
        check_strict(PLAN.settings, warnings)
    except DataError as error:
        sys.exit(f"snakemake: {error}")  # Snakemake would show an exception's traceback


class NothingToDo(logging.Handler):
    """Says the last words after Snakemake's message that nothing is to be done."""

    def emit(self, record):
        if record.getMessage() == NOTHING_TO_BE_DONE_MSG and not workflow.dryrun:
            last_words(closing_words(PLAN, TARGETS, Path(workflow.rundir)))


if workflow.is_main_process:
    logger.addHandler(NothingToDo())


onsuccess:
    last_words(closing_words(PLAN, TARGETS, Path(workflow.rundir)))


onerror:
    print(
        "Not finished. What is done stays. Mend the error above, if there is one, and run the same command again."
    )
    last_words("A stopped training resumes.")
