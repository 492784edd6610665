"""MLflow tracking: one experiment per table, one run per system and seed, one parent run per system with several seeds.

An ensemble is a run too, with scores and without curves. Only this package and the pyfunc export import MLflow.

Tracking must never cost a training: a failure is one warning, and ``nmt track publish`` can make up for it later.
Nothing is logged twice. A run is found again by its tag. A curve goes on after its largest step, as a resumed training
repeats steps with the same values. A record's time follows from the log alone, so a store that gets a value twice at
once keeps it once.
"""
