# MLflow: store and experiments are created once, before any job runs; each finished run is then published.
# Creating them is no rule: trainings would depend on it, and Snakemake overlooks their own changes in a run that
# remakes such a dependency, even an ancient() one.


PREPARED = PLAN.settings_for(sorted(PLAN.tables))
TABLE_FILES = [f"--tables={table_path(name)}" for name in PLAN.tables]


onstart:
    or_exit(PLAN.check_tools, TARGETS)
    later = "--later" if workflow.non_local_exec else ""
    shell(f"nmt track prepare --config {{PREPARED:q}} {{TABLE_FILES}} --out {{TRACKING}} {later}")


# Of one seed, or of an ensemble of several, 1-2-3.
rule track:
    input:
        trainings=lambda w: [
            f"{LAYOUT.run(w.table, w.system, seed)}/{name}"
            for seed in w.seed.split("-")
            for name in ("training.json", "log.jsonl")
        ],
        scores=lambda w: PLAN.scores(w.table, (w.system, w.seed)),
        # There first, but redrawing them is no reason to publish again.
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
        "nmt track publish {params.run} {params.folders} --tracking {params.tracking} "
        "--name {wildcards.table}/{wildcards.system} --seed {wildcards.seed} "
        "--figures {input.figures} --out {output.marker} > {log} 2>&1"
