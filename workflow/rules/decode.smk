# A test set translated by a model.


rule decode:
    input:
        model="<results>/runs/{table}/{system}/seed{seed}/{selection}/model",
        clean=lambda w: texts_of(w)[1],
        features=lambda w: by_content(*features_of(w)),
        shards=lambda w: shards_of(w, features_of(w)[1], SHARDS.decode),
    output:
        hypotheses="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/hypotheses.txt",
        decoding="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/decoding.json",
        alignments="<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/alignments.json",
    log:
        "<logs>/decode/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.log",
    benchmark:
        "<benchmarks>/decode/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.tsv"
    group:
        ROW
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **DEVICE,
    params:
        config=lambda w: as_json(PLAN.decoding(w.decoding)),
        source=lambda w: tested(w).source,
        content=lambda w: content(*features_of(w)),
        lines=lambda w: PLAN.table(w.table).lines_of(test_of(w)[0]) or NOT_COMPARED,
        # Functions of `input` or `output` are not compared with those of the last run.
        test=lambda w, input: test_of(w)[0],
        options=lambda w, input: commands.decode_options(
            input.features, PLAN.table(w.table).lines_of(test_of(w)[0]), test_of(w)[1]
        ),
        hypotheses=lambda w, output: unsharded(w, output[0]),
        shard=lambda w, output: shard_option(w),
    shell:
        resumable(
            logged(
                commands.decode(
                    "{input.model}",
                    "{input.clean}/{params.test}.{params.source}",
                    "{params.hypotheses}",
                    "{params.options:q}",
                    "{params.shard}",
                    config="{params.config:q}",
                    device="{resources.device}",
                    threads="{threads}",
                )
            )
        )


use rule decode as decode_shard with:
    output:
        marker=temp(
            touch(
                "<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/hypotheses.txt.shard-{shard}"
            )
        ),
    log:
        "<logs>/decode/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.shard-{shard}.log",
    benchmark:
        "<benchmarks>/decode/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.shard-{shard}.tsv"
