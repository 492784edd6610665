KEPT = (lambda files: files) if BUCKET else update  # a copy of a file in a bucket may not be here


# A table as Markdown, CSV, JSON and one HTML page, and its figures. They are marked `update`, so Snakemake restores the last
# report when a new one fails. Records (results/records) are not declared as outputs, so Snakemake never deletes them.


rule report:
    input:
        table=lambda w: by_content(*table_file(w)),
        scores=lambda w: PLAN.scores(w.table),
        runs=lambda w: PLAN.training_files(w.table),
        pictures=lambda w: PLAN.pictures_shown(w.table),
        copies=lambda w: PLAN.report_files(w.table) if BUCKET else [],
    output:
        KEPT(multiext("<results>/tables/{table}", ".md", ".csv", ".json")),
        page=report(
            KEPT("<results>/tables/{table}.html"),
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        figures=report(
            KEPT(directory("<results>/figures/{table}")),
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
        config=lambda w: PLAN.report_settings([w.table]),
        content=lambda w: content(*table_file(w)),
    shell:
        logged(commands.report("{input.table}", config="{params.config:q}"))
