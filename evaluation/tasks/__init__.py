"""Tasks as data: operators, cases, inputs, expected outputs and tolerances."""
