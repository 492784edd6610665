# One system, one seed. Snakemake deletes the outputs of a job that failed, so the state that training resumes
# from is not declared: it lies in the run's folder, and the declared files are written last.


rule train:
    input:
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
        features=lambda w: PLAN.features(system_of(w), ["train", "valid"]),
        vectors=lambda w: list(or_exit(PLAN.vectors, system_of(w)).values()),
    output:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        curves="<results>/runs/{table}/{system}/seed{seed}/log.jsonl",
    log:
        "<logs>/train/{table}/{system}/seed{seed}.log",
    benchmark:
        "<benchmarks>/train/{table}/{system}/seed{seed}.tsv"
    wildcard_constraints:
        seed=r"\d+",
    retries: 0 if workflow.remote_exec else 2  # by who submits a job to a cluster, not in the job again
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.training,
    params:
        run=lambda w, output: Path(output.training).parent,
        config=lambda w: experiment(system_of(w)),
        # Word vectors too: one more parameter would make Snakemake train again what has none.
        images=lambda w, input: " ".join(
            [*images_option(Path(one).parent for one in input.features[:1]), *PLAN.vector_options(system_of(w))]
        ),
    # Progress goes to the terminal too; `tee -i` outlives Ctrl-C, so that the last words are not lost.
    shell:
        f"{STAY}{LAUNCH}"
        "nmt train {input.encoded} {params.run} --config {params.config:q} --seed {wildcards.seed} "
        "--name {wildcards.table}/{wildcards.system} --device {resources.device} "
        f"--threads {THREADS} "
        "{params.images} "
        f"{FOLLOW} 2>&1 | tee -i {{log}}{REQUEUE}"
