# Image features, for systems that look at pictures: those of the built-in corpus are drawn first, and those of a corpus
# that has them in a mirror are unpacked.


rule draw:
    output:
        pictures=directory("<results>/images/{corpus}"),
    log:
        "<logs>/draw/{corpus}.log",
    conda:
        ENVIRONMENT
    params:
        options=lambda w: " ".join(or_exit(PLAN.draw_options, w.corpus)),
    shell:
        logged(commands.draw("{output.pictures}", "{params.options}"))


# Pseudo-regions: other descriptions of an image as vectors, for systems with backbone: descriptions.


rule lsa:
    input:
        descriptions=lambda w: or_exit(PLAN.described, w.corpus)[1],
    output:
        analysis="<results>/features/{corpus}/descriptions/lsa.npz",
    log:
        "<logs>/features/{corpus}/descriptions/lsa.log",
    conda:
        ENVIRONMENT
    shell:
        logged(commands.lsa("{input.descriptions}/train.en", "{output.analysis}"))


rule pseudo_regions:
    input:
        analysis="<results>/features/{corpus}/descriptions/lsa.npz",
        sentences=lambda w: or_exit(PLAN.described, w.corpus)[0],
        descriptions=lambda w: or_exit(PLAN.described, w.corpus)[1],
    output:
        array="<results>/features/{corpus}/descriptions/{split}.npy",
        making="<results>/features/{corpus}/descriptions/{split}.json",
    log:
        "<logs>/features/{corpus}/descriptions/{split}.log",
    conda:
        ENVIRONMENT
    shell:
        logged(
            commands.pseudo_regions(
                "{input.analysis}",
                "{input.sentences}/{wildcards.split}.en",
                "{input.descriptions}/{wildcards.split}.en",
                "{output.array}",
            )
        )


# The finished part of an interrupted array lies beside it, undeclared, as Snakemake would delete it.
rule features:
    input:
        pictures=lambda w: by_content([or_exit(PLAN.pictures, w.corpus, w.split).source], own_pictures(w)[1]),
    output:
        array="<results>/features/{corpus}/{backbone}/{split}.npy",
        making="<results>/features/{corpus}/{backbone}/{split}.json",
    log:
        "<logs>/features/{corpus}/{backbone}/{split}.log",
    benchmark:
        "<benchmarks>/features/{corpus}/{backbone}/{split}.tsv"
    retries: 2
    conda:
        ENVIRONMENT
    threads: CORES
    resources:
        **DEVICE,
    params:
        folder=lambda w: PLAN.pictures(w.corpus, w.split).folder,
        names=lambda w: PLAN.pictures(w.corpus, w.split).names,
        options=lambda w: PLAN.pictures(w.corpus, w.split).options,
        content=lambda w: content(*own_pictures(w)),
        compared=folder_of_pictures,
    shell:
        shown(
            commands.features(
                "{params.folder:q}",
                "{params.names:q}",
                "{output.array}",
                "{params.options:q}",
                backbone="{wildcards.backbone}",
                device="{resources.device}",
                threads="{threads}",
            )
        )
