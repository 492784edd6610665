# Normalised, tokenised, filtered text, and a report of what was dropped and why.


rule clean:
    input:
        raw="<results>/corpora/{corpus}/{languages}/raw",
    output:
        clean=directory("<results>/corpora/{corpus}/{languages}/{cleaning}"),
    log:
        "<logs>/clean/{corpus}/{languages}/{cleaning}.log",
    benchmark:
        "<benchmarks>/clean/{corpus}/{languages}/{cleaning}.tsv"
    conda:
        ENVIRONMENT
    threads: CORES
    params:
        config=lambda w, output: dump(PLAN.made_for(output.clean).cleaning),
    shell:
        "nmt clean {input.raw} {output.clean} --languages {wildcards.languages} --config {params.config:q} "
        "--jobs {threads} > {log} 2>&1"
