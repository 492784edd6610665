"""How good a translation is: scores by sacrebleu, and whether a difference between systems is more than chance."""
