# Raw text: downloaded, taken from a mirror, written by the built-in generator, or the user's own files.


rule download:
    input:
        lambda w: by_content(*own_text(w)),
    output:
        raw=directory("<results>/corpora/{corpus}/{languages}/raw"),
    log:
        "<logs>/download/{corpus}/{languages}.log",
    wildcard_constraints:
        # Text with added pairs comes from `mix` alone. Snakemake would try this rule where an input of `mix` is missing.
        corpus=r"(?![\w.-]+-(back|forward)-[0-9a-f]{8}/)[\w.-]+",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        corpus=lambda w, output: PLAN.raw_text(planned(output.raw)).corpus,
        options=lambda w, output: PLAN.raw_text(planned(output.raw)).options,
        content=lambda w: content(*own_text(w)),
        declaration=declaration,
    shell:
        logged(commands.download("{params.corpus}", "{wildcards.languages}", "{output.raw}", "{params.options:q}"))
