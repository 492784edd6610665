"""Build tables without Snakemake, from trainings or from committed records."""
