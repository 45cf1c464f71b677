"""A sample profile of Nsight Compute with two kernels and every field."""

from __future__ import annotations

PROFILE = {
    "tool": "ncu 2025.3.1",
    "case": "llama-70b-prefill",
    "kernels": [
        {
            "name": f"{name}<float, 4>",
            "duration_us": took,
            "bandwidth_share": 0.829,
            "compute_share": 0.396,
            "occupancy": 0.689,
            "registers": 39.0,
            "shared_bytes": 1088.0,
            "grid": "16384 x 4",
            "block": "512",
            "stalls": {"long scoreboard": 0.5, "barrier": 0.21, "short scoreboard": 0.07},
        }
        for name, took in (("rms_norm_rows_kernel_with_a_long_name", 128.67), ("scale", 9.1))
    ],
}
