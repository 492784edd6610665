# MLflow: store and experiments are created once, before any job runs; each finished run is then published.
# Creating them is no rule: trainings would depend on it, and Snakemake overlooks their own changes in a run that
# remakes such a dependency, even an ancient() one.


PREPARED = PLAN.settings_for(sorted(PLAN.tables))
TABLE_FILES = [f"--tables={table_path(name)}" for name in PLAN.tables]


onstart:
    or_exit(PLAN.check_tools, TARGETS)
    later = "--later" if workflow.non_local_exec else ""
    shell(f"nmt track prepare --config {{PREPARED:q}} {{TABLE_FILES}} --out {{TRACKING}} {later}")


rule track:
    input:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        curves="<results>/runs/{table}/{system}/seed{seed}/log.jsonl",
        scores=lambda w: PLAN.scores(w.table, (w.system, int(w.seed))),
        # There first, but redrawing them is no reason to publish again.
        figures=lambda w: ancient(LAYOUT.figures(w.table)),
    output:
        marker="<results>/runs/{table}/{system}/seed{seed}/tracked.json",
    log:
        "<logs>/track/{table}/{system}/seed{seed}.log",
    wildcard_constraints:
        seed=r"\d+",
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        store=1,  # a profile may ask for one at a time
    params:
        run=lambda w, input: Path(input.training).parent,
        folders=lambda w, input: [Path(file).parent for file in input.scores],
        tracking=TRACKING,
    shell:
        "nmt track publish {params.run} {params.folders} --tracking {params.tracking} "
        "--name {wildcards.table}/{wildcards.system} --seed {wildcards.seed} "
        "--figures {input.figures} --out {output.marker} > {log} 2>&1"


# An ensemble has scores, and what its members have in common.
rule track_ensemble:
    input:
        trainings=lambda w: [f"{LAYOUT.run(w.table, w.system, seed)}/training.json" for seed in w.seeds.split("-")],
        scores=lambda w: PLAN.scores(w.table, (w.system, w.seeds)),
    output:
        marker="<results>/runs/{table}/{system}/seed{seeds}/tracked.json",
    log:
        "<logs>/track/{table}/{system}/seed{seeds}.log",
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        store=1,
    params:
        run=lambda w, output: Path(output.marker).parent,
        folders=lambda w, input: [Path(file).parent for file in input.scores],
        tracking=TRACKING,
    shell:
        "nmt track publish {params.run} {params.folders} --tracking {params.tracking} "
        "--name {wildcards.table}/{wildcards.system} --seed {wildcards.seeds} --out {output.marker} > {log} 2>&1"
