# MLflow: store and experiments are created once, before any job runs; each finished run is then published.
# Creating them is not a rule. Trainings would depend on it, and Snakemake overlooks a training's own changes in a run that
# remakes such a dependency, even an ancient() one.


STORE_SETTINGS = PLAN.report_settings(sorted(PLAN.tables))
STORE_OPTIONS = commands.track_prepare_options(PLAN.tables, remote=workflow.non_local_exec)


onstart:
    or_exit(check_tools, [PLAN.tables[name] for name in requested_tables(PLAN.settings, TARGETS)])
    shell(" ".join(commands.track_prepare("{STORE_OPTIONS}", config="{STORE_SETTINGS:q}", out="{TRACKING}")))


# One run has one seed, or those of an ensemble, 1-2-3.
rule track:
    input:
        trainings=lambda w: [
            f"{LAYOUT.run(w.table, w.system, seed)}/{name}"
            for seed in w.seed.split("-")
            for name in ("training.json", "log.jsonl")
        ],
        scores=lambda w: PLAN.scores(w.table, (w.system, w.seed)),
        # Made before, but redrawing them is no reason to publish again.
        figures=lambda w: ancient(LAYOUT.figures(w.table)),
    output:
        marker="<results>/runs/{table}/{system}/seed{seed}/tracked.json",
    log:
        "<logs>/track/{table}/{system}/seed{seed}.log",
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        store=1,  # a profile may ask for one at a time
    params:
        run=lambda w, output: Path(output.marker).parent,
        folders=lambda w, input: [Path(file).parent for file in input.scores],
        tracking=TRACKING,
    shell:
        logged(
            commands.track(
                "{params.run}",
                "{params.folders}",
                tracking="{params.tracking}",
                name="{wildcards.table}/{wildcards.system}",
                seed="{wildcards.seed}",
                figures="{input.figures}",
                out="{output.marker}",
            )
        )
