# Normalised, tokenised, filtered text, and a report of what was dropped and why.


rule clean:
    input:
        raw="<results>/corpora/{corpus}/{languages}/raw",
        scores=lambda w: by_content(*scores_of(w)),
        shards=lambda w: shards_of(w, f"{LAYOUT.results}/corpora/{w.corpus}/{w.languages}/{w.cleaning}", SHARDS.clean),
    output:
        clean=directory("<results>/corpora/{corpus}/{languages}/{cleaning}"),
    log:
        "<logs>/clean/{corpus}/{languages}/{cleaning}.log",
    benchmark:
        "<benchmarks>/clean/{corpus}/{languages}/{cleaning}.tsv"
    group:
        TEXT
    conda:
        ENVIRONMENT
    threads: CORES
    params:
        # Functions of `output` are not compared with those of the last run.
        clean=lambda w, output: unsharded(w, output[0]),
        config=lambda w, output: as_json(PLAN.cleaning(planned(unsharded(w, output[0])))),
        shard=lambda w, output: shard_option(w),
        content=lambda w: content(*scores_of(w)),
    shell:
        logged(
            commands.clean(
                "{input.raw}",
                "{params.clean}",
                "{params.shard}",
                languages="{wildcards.languages}",
                config="{params.config:q}",
                jobs="{threads}",
            )
        )


use rule clean as clean_shard with:
    output:
        marker=temp(touch("<results>/corpora/{corpus}/{languages}/{cleaning}.shard-{shard}")),
    log:
        "<logs>/clean/{corpus}/{languages}/{cleaning}.shard-{shard}.log",
    benchmark:
        "<benchmarks>/clean/{corpus}/{languages}/{cleaning}.shard-{shard}.tsv"
    group:
        lambda w: None  # a job of its own
