# The whole pipeline: each file below is one stage, and each stage is one `nmt` command.
from nmt.plan.load import check_readable, or_exit
from snakemake.utils import min_version

min_version("9.27")
or_exit(check_readable, "config.yaml")


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/own_files.smk"
include: "workflow/rules/download.smk"
include: "workflow/rules/translate_text.smk"
include: "workflow/rules/score_pairs.smk"
include: "workflow/rules/clean.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/subwords.smk"
include: "workflow/rules/encode.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/word_vectors.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/average.smk"
include: "workflow/rules/decode.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/comet.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/last_words.smk"


rule all:
    default_target: True
    input:
        [PLAN.table_files(name) for name in PLAN.settings.tables],
    localrule: True


# Targets of each table file, as `snakemake --cores all table_multi30k_transformer`; comet_… scores it by COMET, and inputs_…
# makes no more than its systems and rows are made from: encoded text, test sets, features.
for name in PLAN.tables:

    rule:
        name:
            f"table_{name}"
        input:
            PLAN.table_files(name),
        localrule: True

    rule:
        name:
            f"comet_{name}"
        input:
            lambda _, name=name: [Path(scores).with_name("comet.json") for scores in or_exit(PLAN.scores, name)],
        localrule: True

    rule:
        name:
            f"inputs_{name}"
        input:
            lambda _, name=name: or_exit(PLAN.inputs, name),
        localrule: True
