# MLflow: before any job runs, tracking.json says where the store is; each finished run is then published.
# Writing it is not a rule. Trainings would depend on it, and Snakemake overlooks a training's own changes in a run that
# remakes such a dependency, even an ancient() one.
from nmt.data.word2vec import check_gensim
from nmt.system.slurm import watch_queue
from nmt.tracking.prepare import prepare
from nmt.tracking.store import deletions


onstart:
    claim_files()
    for job in workflow.dag.needrun_jobs():  # Snakemake fails where a report that was killed has left its backup
        for file in job.output:
            workflow.persistence.cleanup_backup(Path(file))
    if workflow.non_local_exec:
        watch_queue()
    requested = [PLAN.tables[name] for name in requested_tables(PLAN.settings, TARGETS, ("table", "comet"))]
    or_exit(check_tools, requested)
    systems = [system for table in requested for system in table.systems.values()]
    if not all(LAYOUT.vectors(text).exists() for one in systems for text in one.texts_of_vectors.values()):
        or_exit(check_gensim)
    if tables := tracked_tables():
        captions = {name: PLAN.table(name).caption for name in tables}
        or_exit(prepare, PLAN.settings.tracking.uri, LAYOUT.results, captions, workflow.non_local_exec)


rule track:
    input:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        curves="<results>/runs/{table}/{system}/seed{seed}/log.jsonl",
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
        run=lambda w, output: Path(output.marker).parent,
        tracking=TRACKING,
        # After the store was deleted, finished runs are sent again.
        deletions=deletions(TRACKING) or NOT_COMPARED,
    shell:
        logged(
            commands.track(
                "{params.run}",
                tracking="{params.tracking}",
                name="{wildcards.table}/{wildcards.system}",
                seed="{wildcards.seed}",
                out="{output.marker}",
            )
        )


# The table with its figures, and a run for each row. They refer to the runs of the trainings.
rule track_table:
    input:
        table="<results>/tables/{table}.json",
        page="<results>/tables/{table}.html",
        figures=lambda w: LAYOUT.figures(w.table),
        copies=lambda w: PLAN.report_files(w.table) if BUCKET else [],
        trainings=lambda w: [marker for marker in PLAN.markers(w.table) if Path(marker).parent.name.startswith("seed")],
    output:
        marker="<results>/runs/{table}/tracked.json",
    log:
        "<logs>/track/{table}.log",
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        store=1,
    params:
        tracking=TRACKING,
        options=commands.track_table_options(PLAN.settings.tracking),
        deletions=deletions(TRACKING) or NOT_COMPARED,
    shell:
        logged(
            commands.track_table(
                "{input.table}",
                "{params.options}",
                tracking="{params.tracking}",
                out="{output.marker}",
            )
        )
