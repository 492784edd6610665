# Vocabularies, learned from the training text only.


rule subwords:
    input:
        clean=clean_texts,
    output:
        subwords=directory("<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/subwords/{corpus}/{languages}/{cleaning}/{subwords}.log",
    benchmark:
        "<benchmarks>/subwords/{corpus}/{languages}/{cleaning}/{subwords}.tsv"
    wildcard_constraints:
        subwords=r"[a-z]+\d+-[0-9a-f]{8}",
    group:
        TEXT
    conda:
        ENVIRONMENT
    threads: CORES
    params:
        config=lambda w, output: as_json(PLAN.system_for(planned(output.subwords)).subwords),
        languages=lambda w, output: pairs_of(w),
    shell:
        logged(
            commands.subwords(
                "{input.clean}",
                "{output.subwords}",
                languages="{params.languages}",
                config="{params.config:q}",
                threads="{threads}",
            )
        )


# Those of the parent that a system starts from. Only the content of a model folder counts, so its path is no input.
rule inherit_subwords:
    input:
        lambda w: inherited(w)[1] if inherited(w)[0].initialise.system else [],
    output:
        subwords=directory("<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/subwords/{corpus}/{languages}/{cleaning}/{subwords}.log",
    wildcard_constraints:
        subwords=r"[a-z]+\d+-from-[0-9a-f]{8}",
    group:
        TEXT
    conda:
        ENVIRONMENT
    params:
        parent=lambda w: inherited(w)[1],
        options=lambda w: commands.inherit_subwords_options(inherited(w)[0].subwords),
        languages=lambda w, output: pairs_of(w),
    shell:
        logged(
            commands.inherit_subwords(
                "{params.parent:q}", "{output.subwords}", "{params.options}", languages="{params.languages}"
            )
        )
