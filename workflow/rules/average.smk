# A whole model directory from the checkpoints that a row selects: one of them, or the average of several.


rule average:
    input:
        training="<results>/runs/{table}/{system}/seed{seed}/training.json",
        encoded=lambda w: LAYOUT.encoded(system_of(w)),
    output:
        model=directory("<results>/runs/{table}/{system}/seed{seed}/{selection}/model"),
    log:
        "<logs>/average/{table}/{system}/seed{seed}/{selection}.log",
    group:
        ROW
    conda:
        ENVIRONMENT
    params:
        run=lambda w, input: Path(input.training).parent,
        at=lambda w: w.selection.replace("-", " "),
    shell:
        "nmt average {params.run} {output.model} --at {params.at:q} --encoded {input.encoded} > {log} 2>&1"
