# Normalised, tokenised, filtered text, and a report of what was dropped and why.


rule clean:
    input:
        raw="<results>/corpora/{corpus}/{languages}/raw",
        shards=lambda w: shards_of(f"{LAYOUT.results}/corpora/{w.corpus}/{w.languages}/{w.cleaning}", SHARDS.clean),
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
        config=lambda w, output: dump(PLAN.made_for(output.clean).cleaning),
    shell:
        "nmt clean {input.raw} {output.clean} --languages {wildcards.languages} --config {params.config:q} "
        "--jobs {threads} > {log} 2>&1"


rule clean_shard:
    input:
        raw="<results>/corpora/{corpus}/{languages}/raw",
    output:
        marker=temp(touch("<results>/corpora/{corpus}/{languages}/{cleaning}.shard-{shard}")),
    log:
        "<logs>/clean/{corpus}/{languages}/{cleaning}.shard-{shard}.log",
    conda:
        ENVIRONMENT
    threads: CORES
    params:
        clean=lambda w, output: sharded(output.marker)[0],
        shard=lambda w, output: sharded(output.marker)[1],
        config=lambda w, output: dump(PLAN.made_for(sharded(output.marker)[0]).cleaning),
    shell:
        "nmt clean {input.raw} {params.clean} --languages {wildcards.languages} --config {params.config:q} "
        "--jobs {threads} --shard {params.shard} > {log} 2>&1"
