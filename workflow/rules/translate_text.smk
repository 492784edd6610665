# Text of one language, translated by a system of a table, and added to the training text.


rule translate_text:
    input:
        model=lambda w: translation(w)["model"],
        text=lambda w: translation(w)["text"],
    output:
        translations="<results>/{way}-translated/{recipe}/translations.txt",
        decoding="<results>/{way}-translated/{recipe}/decoding.json",
        alignments="<results>/{way}-translated/{recipe}/alignments.json",
    log:
        "<logs>/{way}-translated/{recipe}.log",
    benchmark:
        "<benchmarks>/{way}-translated/{recipe}.tsv"
    conda:
        ENVIRONMENT
    threads: SHARE
    resources:
        **PLAN.device,
    params:
        config=lambda w: translation(w)["decoding"],
        language=lambda w: translation(w)["language"],
    shell:
        f"{STAY}"
        "nmt translate-text {input.model} {input.text}/train.{params.language} {output.translations} "
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


# A folder with added pairs is no corpus to download.
ruleorder: mix > download
