# Training and validation text as memory-mapped arrays of ids: all that training reads.


rule encode:
    input:
        clean="<results>/corpora/{corpus}/{languages}/{cleaning}",
        subwords="<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}",
        shards=lambda w: shards_of(
            f"{LAYOUT.results}/encoded/{w.corpus}/{w.languages}/{w.cleaning}/{w.subwords}", SHARDS.encode
        ),
    output:
        encoded=directory("<results>/encoded/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/encode/{corpus}/{languages}/{cleaning}/{subwords}.log",
    group:
        TEXT
    conda:
        ENVIRONMENT
    shell:
        "nmt encode {input.clean} {input.subwords} {output.encoded} --languages {wildcards.languages} > {log} 2>&1"


rule encode_shard:
    input:
        clean="<results>/corpora/{corpus}/{languages}/{cleaning}",
        subwords="<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}",
    output:
        marker=temp(touch("<results>/encoded/{corpus}/{languages}/{cleaning}/{subwords}.shard-{shard}")),
    log:
        "<logs>/encode/{corpus}/{languages}/{cleaning}/{subwords}.shard-{shard}.log",
    conda:
        ENVIRONMENT
    params:
        encoded=lambda w, output: sharded(output.marker)[0],
        shard=lambda w, output: sharded(output.marker)[1],
    shell:
        "nmt encode {input.clean} {input.subwords} {params.encoded} --languages {wildcards.languages} "
        "--shard {params.shard} > {log} 2>&1"
