# A test set translated by a model.


rule decode:
    input:
        model="<results>/runs/{table}/{system}/seed{seed}/{selection}/model",
        clean=lambda w: texts_of(w)[1],
        features=lambda w: PLAN.features(tested(w), [w.test], PLAN.decoding(w.decoding).images),
        shards=lambda w: shards_of(
            f"{LAYOUT.run(w.table, w.system, w.seed)}/{w.selection}/{w.test}/{w.decoding}/hypotheses.txt",
            SHARDS.decode,
        ),
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
        **PLAN.device,
    params:
        config=lambda w: dump(PLAN.decoding(w.decoding)),
        source=lambda w: system_of(w).source,
        images=lambda w, input: " ".join(images_option(input.features)),
    shell:
        f"{STAY}"
        "nmt decode {input.model} {input.clean}/{wildcards.test}.{params.source} {output.hypotheses} "
        "--config {params.config:q} --device {resources.device} --threads {threads} {params.images} "
        f"> {{log}} 2>&1{REQUEUE}"


rule decode_shard:
    input:
        model="<results>/runs/{table}/{system}/seed{seed}/{selection}/model",
        clean=lambda w: texts_of(w)[1],
        features=lambda w: PLAN.features(tested(w), [w.test], PLAN.decoding(w.decoding).images),
    output:
        marker=temp(
            touch(
                "<results>/runs/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}/hypotheses.txt.shard-{shard}"
            )
        ),
    log:
        "<logs>/decode/{table}/{system}/seed{seed}/{selection}/{test}/{decoding}.shard-{shard}.log",
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.device,
    params:
        hypotheses=lambda w, output: sharded(output.marker)[0],
        shard=lambda w, output: sharded(output.marker)[1],
        config=lambda w: dump(PLAN.decoding(w.decoding)),
        source=lambda w: system_of(w).source,
        images=lambda w, input: " ".join(images_option(input.features)),
    shell:
        f"{STAY}"
        "nmt decode {input.model} {input.clean}/{wildcards.test}.{params.source} {params.hypotheses} "
        "--config {params.config:q} --device {resources.device} --threads {threads} {params.images} "
        f"--shard {{params.shard}} > {{log}} 2>&1{REQUEUE}"
