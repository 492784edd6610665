# Training and validation text as memory-mapped arrays of ids: all that training reads.


rule encode:
    input:
        clean="<results>/corpora/{corpus}/{languages}/{cleaning}",
        subwords="<results>/subwords/{corpus}/{languages}/{cleaning}/{subwords}",
    output:
        encoded=directory("<results>/encoded/{corpus}/{languages}/{cleaning}/{subwords}"),
    log:
        "<logs>/encode/{corpus}/{languages}/{cleaning}/{subwords}.log",
    conda:
        ENVIRONMENT
    shell:
        "nmt encode {input.clean} {input.subwords} {output.encoded} --languages {wildcards.languages} " "> {log} 2>&1"
