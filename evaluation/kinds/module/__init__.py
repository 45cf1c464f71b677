"""Production: kernels judged inside live models, alone, end to end and by the model's speed."""
