"""A worker that starts one judge as another user, ARENA_JUDGE_USER, and prints its report.

`judged_as.py <judge>` needs a Python that the user can read.
"""

from __future__ import annotations

import json
import os
import sys

import django

django.setup()

from django.conf import settings  # noqa: E402

from arena.catalog.models import Hardware  # noqa: E402  (Django must be set up first)
from arena.home import make_private  # noqa: E402
from runners.worker import judge_user, judging  # noqa: E402

judging.COMMAND = (sys.executable, *sys.argv[1:])
judge_user.prepare()
make_private(settings.ARENA_HOME)
(settings.ARENA_HOME / "secret").write_text("of the worker")
work = judging.Judging(
    "one",
    Hardware(),
    judging.MEASURE,
    None,
    {"worker": os.getpid(), "cache": str(judge_user.cache())},
    lambda: True,
)
print(json.dumps(work.carry_out()))
