# One system, one seed. Snakemake deletes the outputs of a job that failed, so the state that training resumes
# from is not declared: it lies in the run's folder, and the declared files are written last.


rule train:
    input:
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
        features=lambda w: PLAN.features(system_of(w), ["train", "valid"]),
    output:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        curves="<results>/runs/{table}/{system}/seed{seed}/log.jsonl",
    log:
        "<logs>/train/{table}/{system}/seed{seed}.log",
    benchmark:
        "<benchmarks>/train/{table}/{system}/seed{seed}.tsv"
    retries: 0 if workflow.remote_exec else 2  # by who submits a job to a cluster, not in the job again
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.training,
    params:
        run=lambda w, output: Path(output.training).parent,
        config=lambda w: experiment(system_of(w)),
        images=lambda w, input: f"--images {Path(input.features[0]).parent}" if input.features else "",
    # Progress goes to the terminal too; `tee -i` outlives Ctrl-C, so that the last words are not lost.
    shell:
        f"{STAY}{LAUNCH}"
        "nmt train {input.encoded} {params.run} --config {params.config:q} --seed {wildcards.seed} "
        "--name {wildcards.table}/{wildcards.system} --device {resources.device} "
        f"--threads {THREADS} "
        "{params.images} "
        f"{FOLLOW} 2>&1 | tee -i {{log}}{REQUEUE}"
