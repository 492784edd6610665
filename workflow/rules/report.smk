# A table as Markdown, CSV, JSON and one HTML page, and its figures, each `update`: after a report that fails Snakemake puts
# back the last one. Records (results/records) are no outputs: what is kept of trainings is nobody's to delete.


rule report:
    input:
        table="workflow/tables/{table}.yaml",
        scores=lambda w: PLAN.scores(w.table),
        runs=lambda w: PLAN.training_files(w.table),
        pictures=lambda w: PLAN.drawn_over(w.table),
    output:
        update(multiext("<results>/tables/{table}", ".md", ".csv", ".json")),
        page=report(
            update("<results>/tables/{table}.html"),
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        figures=report(
            update(directory("<results>/figures/{table}")),
            patterns=["{figure}.png"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"table": "{table}", "figure": "{figure}"},
        ),
    log:
        "<logs>/report/{table}.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        config=lambda w: PLAN.settings_for([w.table]),
    shell:
        "nmt report {input.table} --config {params.config:q} > {log} 2>&1"
