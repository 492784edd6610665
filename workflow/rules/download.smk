# Raw text: downloaded, taken from a mirror, written by the built-in generator, or the user's own files.


rule download:
    input:
        # The user's own files, so that an edit of them is seen.
        lambda w: PLAN.raw_text(f"{LAYOUT.results}/corpora/{w.corpus}/{w.languages}/raw").own_files,
    output:
        raw=directory("<results>/corpora/{corpus}/{languages}/raw"),
    log:
        "<logs>/download/{corpus}/{languages}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        corpus=lambda w, output: PLAN.raw_text(output.raw).corpus,
        options=lambda w, output: PLAN.raw_text(output.raw).options,
    shell:
        logged(commands.download("{params.corpus}", "{wildcards.languages}", "{output.raw}", "{params.options:q}"))
