# COMET, in an environment of its own: its requirements do not fit those of the other stages.

COMET = PLAN.settings.comet


rule comet_environment:
    output:
        python=local(".comet/bin/python"),
    log:
        "<logs>/comet_environment.log",
    localrule: True
    conda:
        ENVIRONMENT
    shell:
        logged(commands.comet_environment(".comet"))


rule comet:
    input:
        scores="<results>/runs/{row}/scores.json",
        environment=rules.comet_environment.output if COMET.python.parts[0] == ".comet" else [],
    output:
        scores="<results>/runs/{row}/comet.json",
    log:
        "<logs>/comet/{row}.log",
    conda:
        ENVIRONMENT
    resources:
        gpu=1,
    params:
        folder=lambda w, input: Path(input.scores).parent,
        checkpoint=lambda w: or_exit(COMET.given),
        python=COMET.python,
    shell:
        logged(
            commands.comet(
                "{params.folder}/hypotheses.detok",
                source="{params.folder}/sources.txt",
                reference="{params.folder}/references.detok",
                checkpoint="{params.checkpoint:q}",
                python="{params.python:q}",
                out="{output.scores}",
            )
        )
