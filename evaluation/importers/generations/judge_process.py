"""The process that judges generations for a campaign: `python -m` with the kind of device."""

from __future__ import annotations

import importlib
import os
import sys

# OpenMP threads of the judge must sleep, not spin, while a candidate is timed. Read when torch is
# imported.
os.environ["GOMP_SPINCOUNT"] = "0"

from evaluation.importers.generations.verdicts import judge
from evaluation.judge.verdict_queue import serve

if __name__ == "__main__":
    serve(judge, sys.argv[1], lambda: importlib.import_module("evaluation.kinds.kernel.session"))
