# Scores of raw training pairs by systems of tables, for the filter `scores` of cleaning.


rule score_pairs:
    input:
        raw=lambda w: pair_scores(w).raw,
        models=lambda w: pair_scores(w).models,
    output:
        scores="<results>/corpora/{corpus}/{languages}/{scores}.txt",
    log:
        "<logs>/score-pairs/{corpus}/{languages}/{scores}.log",
    benchmark:
        "<benchmarks>/score-pairs/{corpus}/{languages}/{scores}.tsv"
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **DEVICE,
    params:
        source=lambda w: w.languages.split("-")[0],
        target=lambda w: w.languages.split("-")[1],
        options=lambda w, input: commands.score_pairs_options(input.models),
    shell:
        logged(
            commands.score_pairs(
                "{input.raw}/train.{params.source}",
                "{input.raw}/train.{params.target}",
                "{output.scores}",
                "{params.options:q}",
                device="{resources.device}",
                threads="{threads}",
            )
        )
