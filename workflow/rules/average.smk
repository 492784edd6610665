# A whole model directory from the checkpoints that a row selects: one of them, or the average of several.


rule average:
    input:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
    output:
        model=directory("<results>/runs/{table}/{system}/seed{seed}/{selection}/model"),
    log:
        "<logs>/average/{table}/{system}/seed{seed}/{selection}.log",
    wildcard_constraints:
        seed=r"\d+",
        selection=SELECTED,
    group:
        ROW
    conda:
        ENVIRONMENT
    params:
        run=lambda w, input: Path(input.training).parent,
        at=lambda w: w.selection.replace("-", " "),
    shell:
        KEEP_STATE
        + logged(commands.average("{params.run}", "{output.model}", at="{params.at:q}", encoded="{input.encoded}"))


# The weights that a fine-tuned system started from, alone or averaged with checkpoints. In the group `row` this rule
# would connect the average of the parent, before the training, with what comes after.
rule average_with_start:
    input:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
        parent=trained_parent,
    output:
        model=directory("<results>/runs/{table}/{system}/seed{seed}/{selection}/model"),
    log:
        "<logs>/average_with_start/{table}/{system}/seed{seed}/{selection}.log",
    wildcard_constraints:
        seed=r"\d+",
        selection=rf"({SELECTED}-and-)?start",
    conda:
        ENVIRONMENT
    params:
        run=lambda w, input: Path(input.training).parent,
        at=lambda w: w.selection.replace("-", " "),
        start=parent_of,
    shell:
        KEEP_STATE
        + logged(
            commands.average_with_start(
                "{params.run}",
                "{output.model}",
                at="{params.at:q}",
                encoded="{input.encoded}",
                start="{params.start:q}",
            )
        )


# The models of several seeds, which translate together.
rule ensemble:
    input:
        models=lambda w: [f"{LAYOUT.run(w.table, w.system, seed)}/{w.selection}/model" for seed in w.seeds.split("-")],
    output:
        model=directory("<results>/runs/{table}/{system}/seed{seeds}/{selection}/model"),
    log:
        "<logs>/ensemble/{table}/{system}/seed{seeds}/{selection}.log",
    conda:
        ENVIRONMENT
    shell:
        logged(commands.ensemble("{output.model}", "{input.models}"))
