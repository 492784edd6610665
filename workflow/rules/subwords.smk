# Vocabularies, learned from the training text only.


rule subwords:
    input:
        clean="<results>/corpora/{corpus}/{languages}/{cleaning}",
    output:
        subwords=directory("<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/subwords/{corpus}/{languages}/{cleaning}/{subwords}.log",
    benchmark:
        "<benchmarks>/subwords/{corpus}/{languages}/{cleaning}/{subwords}.tsv"
    group:
        TEXT
    conda:
        ENVIRONMENT
    threads: CORES
    params:
        config=lambda w, output: as_json(PLAN.system_for(output.subwords).subwords),
    shell:
        logged(
            commands.subwords(
                "{input.clean}",
                "{output.subwords}",
                languages="{wildcards.languages}",
                config="{params.config:q}",
                threads="{threads}",
            )
        )
