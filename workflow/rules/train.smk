# One system, one seed. Snakemake deletes the outputs of a failed job. So the state that training resumes from is not
# declared: it lies in the run's folder, and the declared files are written last.


rule train:
    input:
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
        features=lambda w: by_content(seen(w), training_of(w)),
        vectors=lambda w: by_content(vectors(w), training_of(w)),
        links=lambda w: by_content(links(w), training_of(w)),
        parent=trained_parent,
    output:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        curves="<results>/runs/{table}/{system}/seed{seed}/log.jsonl",
    log:
        "<logs>/train/{table}/{system}/seed{seed}.log",
    benchmark:
        "<benchmarks>/train/{table}/{system}/seed{seed}.tsv"
    wildcard_constraints:
        seed=r"\d+",
    retries: 0 if workflow.remote_exec else 2  # on a cluster, whoever submits the job tries again
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.settings.training_resources,
    params:
        run=lambda w, output: Path(output.training).parent,
        config=lambda w: experiment(system_of(w)),
        content=lambda w: content([*seen(w), *vectors(w), *links(w)], training_of(w)),
        sides=sides_of_vectors,
        # Word vectors, a parent and alignments too. A function of `input` is not compared with that of the last run.
        options=lambda w, input: commands.train_options(
            input.features, PLAN.vectors(system_of(w)), parent_of(w), system_of(w).alignments
        ),
    shell:
        resumable(
            LOCK_STATE
            + LAUNCH
            + shown(
                commands.train(
                    "{input.encoded}",
                    "{params.run}",
                    "{params.options:q}",
                    FOLLOW,
                    config="{params.config:q}",
                    seed="{wildcards.seed}",
                    name="{wildcards.table}/{wildcards.system}",
                    device="{resources.device}",
                    threads=THREADS,
                )
            )
        )
