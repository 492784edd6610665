"""Tables, figures and pages, built from the results of trainings and scoring."""
