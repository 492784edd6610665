# Text of one language, translated by a system of a table, and added to the training text.


rule translate_text:
    input:
        model=lambda w: translation(w).model,
        text=lambda w: translation(w).text,
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
        **DEVICE,
    params:
        config=lambda w: translation(w).config,
        language=lambda w: translation(w).language,
        options=lambda w, input: translation(w).options,
    shell:
        resumable(
            logged(
                commands.translate_text(
                    "{input.model}",
                    "{input.text}/train.{params.language}",
                    "{output.translations}",
                    "{params.options}",
                    config="{params.config:q}",
                    device="{resources.device}",
                    threads="{threads}",
                )
            )
        )


rule mix:
    input:
        raw=lambda w: mixture(w).raw,
        text=lambda w: mixture(w).text,
        translations=lambda w: mixture(w).translations / "translations.txt",
        making=lambda w: mixture(w).translations / "decoding.json",
    output:
        raw=directory("<results>/corpora/{corpus}-{mixture}/{languages}/raw"),
    log:
        "<logs>/mix/{corpus}-{mixture}/{languages}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=lambda w, input: Path(input.translations).parent,
        options=lambda w: mixture(w).options,
    shell:
        logged(
            commands.mix(
                "{input.raw}",
                "{input.text}",
                "{params.folder}",
                "{output.raw}",
                "{params.options:q}",
                languages="{wildcards.languages}",
            )
        )
