# Back-translation: text of the target language, translated by a system of a table, and added to the training text.


rule back_translate:
    input:
        model=lambda w: or_exit(PLAN.back_translation, w.recipe)["model"],
        text=lambda w: or_exit(PLAN.back_translation, w.recipe)["text"],
    output:
        translations="<results>/back-translated/{recipe}/translations.txt",
        decoding="<results>/back-translated/{recipe}/decoding.json",
        alignments="<results>/back-translated/{recipe}/alignments.json",
    log:
        "<logs>/back-translated/{recipe}.log",
    benchmark:
        "<benchmarks>/back-translated/{recipe}.tsv"
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.device,
    params:
        config=lambda w: PLAN.back_translation(w.recipe)["decoding"],
        language=lambda w: PLAN.back_translation(w.recipe)["language"],
    shell:
        f"{STAY}"
        "nmt back-translate {input.model} {input.text}/train.{params.language} {output.translations} "
        "--config {params.config:q} --device {resources.device} --threads {threads} "
        f"> {{log}} 2>&1{REQUEUE}"


rule mix:
    input:
        raw=lambda w: PLAN.mixture(mixed(w))["raw"],
        text=lambda w: PLAN.mixture(mixed(w))["text"],
        translations=lambda w: PLAN.mixture(mixed(w))["translations"] / "translations.txt",
        making=lambda w: PLAN.mixture(mixed(w))["translations"] / "decoding.json",
    output:
        raw=directory("<results>/corpora/{corpus}-{mixture}/{languages}/raw"),
    log:
        "<logs>/mix/{corpus}-{mixture}/{languages}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=lambda w, input: Path(input.translations).parent,
        options=lambda w: PLAN.mixture(mixed(w))["options"],
    shell:
        "nmt mix {input.raw} {input.text} {params.folder} {output.raw} --languages {wildcards.languages} "
        "{params.options:q} > {log} 2>&1"


# A folder with back-translations is no corpus to download.
ruleorder: mix > download
