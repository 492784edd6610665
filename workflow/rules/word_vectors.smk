# Word vectors learned from text, for embeddings to start from.


rule word_vectors:
    input:
        raw="<results>/corpora/{corpus}/{language}/raw",
    output:
        vectors="<results>/corpora/{corpus}/{language}/vectors{width}-{recipe}.txt",
    log:
        "<logs>/word-vectors/{corpus}/{language}/{width}-{recipe}.log",
    wildcard_constraints:
        language=LANGUAGE,
        width=r"\d+",
        recipe=r"[0-9a-f]{8}",
    conda:
        ENVIRONMENT
    params:
        config=lambda w, output: as_json(PLAN.system_for(planned(output.vectors)).cleaning),
    shell:
        logged(
            commands.word_vectors(
                "{input.raw}/train.{wildcards.language}",
                "{output.vectors}",
                language="{wildcards.language}",
                config="{params.config:q}",
                width="{wildcards.width}",
            )
        )
