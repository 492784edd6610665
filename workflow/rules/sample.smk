# A sample of the training text, as the test set train_sample.


rule sample:
    input:
        raw="<results>/corpora/{corpus}/{languages}/raw",
        clean="<results>/corpora/{corpus}/{languages}/{cleaning}",
    output:
        raw=directory("<results>/corpora/{corpus}/{languages}/{cleaning}-sample{pairs}/raw"),
        clean=directory("<results>/corpora/{corpus}/{languages}/{cleaning}-sample{pairs}/clean"),
    log:
        "<logs>/sample/{corpus}/{languages}/{cleaning}-sample{pairs}.log",
    conda:
        ENVIRONMENT
    params:
        folder=lambda w, output: Path(output.raw).parent,
    shell:
        logged(
            commands.sample(
                "{input.raw}",
                "{input.clean}",
                "{params.folder}",
                languages="{wildcards.languages}",
                count="{wildcards.pairs}",
            )
        )
