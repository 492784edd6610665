"""Tables, figures and pages, written from the files that trainings and scores leave."""
