# Image features, for systems that look at pictures: those of the built-in corpus are drawn first.


rule draw:
    output:
        pictures=directory("<results>/images/{corpus}"),
    log:
        "<logs>/draw/{corpus}.log",
    conda:
        ENVIRONMENT
    params:
        limit=f"--limit {PLAN.settings.limit}" if PLAN.settings.limit else "",
    shell:
        "nmt draw {output.pictures} {params.limit} > {log} 2>&1"


# What is done already of an interrupted array lies beside it, undeclared, as Snakemake would delete it.
rule features:
    input:
        pictures=lambda w: or_say(PLAN.pictures, w.corpus, w.split)["made"],
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
        **PLAN.device,
    params:
        folder=lambda w: PLAN.pictures(w.corpus, w.split)["folder"],
        names=lambda w: PLAN.pictures(w.corpus, w.split)["names"],
        options=lambda w: PLAN.features_options(w.corpus),
    shell:
        "nmt features {params.folder:q} {params.names:q} {output.array} --backbone {wildcards.backbone} "
        "{params.options:q} --device {resources.device} --threads {threads} 2>&1 | tee -i {log}"
