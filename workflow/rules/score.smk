# BLEU, chrF, TER and the other metrics of the table, beside the texts that they were computed from.


rule score:
    input:
        hypotheses="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/hypotheses.txt",
        decoding="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/decoding.json",
        model="<results>/runs/{table}/{system}/seed{seed}/{selection}/model",
        raw=lambda w: texts_of(w)[0],
        clean=lambda w: texts_of(w)[1],
    output:
        multiext(
            "<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/",
            "hypotheses.tok",
            "references.tok",
            "hypotheses.detok",
            "references.detok",
            "sources.txt",
        ),
        scores="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/scores.json",
    log:
        "<logs>/score/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.log",
    group:
        ROW
    conda:
        ENVIRONMENT
    params:
        languages=lambda w: tested(w).languages,
        test=lambda w, output: test_of(w)[0],
        folder=lambda w, output: Path(output.scores).parent,
        also=lambda w: commands.score_options(PLAN.tables[w.table].requested_metrics),
    shell:
        logged(
            commands.score(
                "{input.hypotheses}",
                "{params.also}",
                clean="{input.clean}",
                raw="{input.raw}",
                test="{params.test}",
                languages="{params.languages}",
                model="{input.model}",
                out="{params.folder}",
            )
        )


# Translations of another system. Their content decides whether they are scored again, not the time of the file.
rule score_output:
    input:
        hypotheses=lambda w: ancient(output_of(w).hypotheses),
        raw=lambda w: output_of(w).raw,
        clean=lambda w: output_of(w).clean,
    output:
        multiext(
            "<results>/runs/{table}/{given}/{test}/",
            "hypotheses.tok",
            "references.tok",
            "hypotheses.detok",
            "references.detok",
            "sources.txt",
        ),
        scores="<results>/runs/{table}/{given}/{test}/scores.json",
    log:
        "<logs>/score/{table}/{given}/{test}.log",
    conda:
        ENVIRONMENT
    params:
        sha256=lambda w: sha256(output_of(w).hypotheses),
        languages=lambda w: output_of(w).languages,
        test=lambda w, output: output_of(w).test,
        folder=lambda w, output: Path(output.scores).parent,
        also=lambda w: commands.score_options(PLAN.tables[w.table].requested_metrics),
    shell:
        logged(
            commands.score_output(
                "{input.hypotheses:q}",
                "{params.also}",
                clean="{input.clean}",
                raw="{input.raw}",
                test="{params.test}",
                languages="{params.languages}",
                out="{params.folder}",
            )
        )
