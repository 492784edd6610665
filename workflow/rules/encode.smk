# Training and validation text as memory-mapped arrays of ids: all that training reads.


rule encode:
    input:
        clean=clean_texts,
        subwords="<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}",
        shards=lambda w: shards_of(
            w, f"{LAYOUT.results}/encoded/{w.corpus}/{w.languages}/{w.cleaning}/{w.subwords}", SHARDS.encode
        ),
    output:
        encoded=directory("<results>/encoded/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/encode/{corpus}/{languages}/{cleaning}/{subwords}.log",
    group:
        TEXT
    conda:
        ENVIRONMENT
    params:
        # Functions of `output` are not compared with those of the last run.
        encoded=lambda w, output: unsharded(w, output[0]),
        shard=lambda w, output: shard_option(w),
        languages=lambda w, output: pairs_of(w),
    shell:
        logged(
            commands.encode(
                "{input.clean}",
                "{input.subwords}",
                "{params.encoded}",
                "{params.shard}",
                languages="{params.languages}",
            )
        )


use rule encode as encode_shard with:
    output:
        marker=temp(touch("<results>/encoded/{corpus}/{languages}/{cleaning}/{subwords}.shard-{shard}")),
    log:
        "<logs>/encode/{corpus}/{languages}/{cleaning}/{subwords}.shard-{shard}.log",
