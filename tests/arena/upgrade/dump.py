"""Dump the database of an earlier release with work in flight, for the test of an upgrade.

    cd EARLIER && scripts/postgres .venv/bin/python HERE/tests/arena/upgrade/dump.py FILE.sql.xz

EARLIER is a checkout of the earlier release, whose migrations and services write the rows. After a
release, dump its database by its own copy of this file.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
os.environ["DJANGO_SETTINGS_MODULE"] = "arena.settings"

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from arena.accounts.models import User  # noqa: E402
from arena.catalog.models import (  # noqa: E402
    Agent,
    CatalogSync,
    Hardware,
    Operator,
    Task,
    TaskVersion,
)
from arena.runs import services  # noqa: E402
from arena.runs.models import Evaluation, Run  # noqa: E402
from arena.runs.trace.events import EventDraft  # noqa: E402
from tests.arena import factories  # noqa: E402

TARGET, TASK, HASH = "k.cpp", "k/cpp-to-cpp", "0"
SOURCE = "speedup 1.5"
STEPS = [{"write": TARGET, "text": SOURCE}, {"check": "done"}]
AGENTS, BUILDER, GPU = "agents-1:21:0a", "build-1:22:0b", "gpu-1:23:0c"
"""Leases of workers that are stopped for the upgrade."""


def catalogue() -> User:
    """Write a task, a device and an agent, and return an owner of runs."""
    operator = Operator.objects.create(
        slug="k", title="K", category="c", level=1, prompt="", reference_source=""
    )
    task = Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
    public = {
        "starter": {TARGET: "speedup 1.0", "TASK.md": "Make it faster."},
        "target_file": TARGET, "kind": "cpu", "seen_cases": [{"name": "wide"}],
    }  # fmt: skip
    TaskVersion.objects.create(task=task, content_hash=HASH, public=public, admitted=True)
    Hardware.objects.create(slug="fake-cpu", name="Fake", kind="cpu", queue="hw.fake-cpu")
    Agent.objects.create(slug="test", title="T", adapter="scripted", settings={"steps": STEPS})
    CatalogSync.objects.create(machine="web-1", checkout="0" * 16, judge_version="0")
    return User.objects.create_user("alice")


def started(label: str) -> Run:
    """Return a run that an agents worker has claimed, with a word of its agent."""
    run = services.start_run(task_slug=TASK, agent_slug="test", label=label)
    assert services.claim_run(run.pk, AGENTS)
    draft = EventDraft("message", {"role": "assistant", "text": "I begin."}, producer_seq=1)
    services.record(run.pk, [draft], producer=f"agent:{AGENTS}")
    return run


def requested(run: Run, scope: str) -> Evaluation:
    return services.request_evaluation(services.submit(run.pk, {TARGET: SOURCE}), scope)


def advance(evaluation: Evaluation, status: str) -> None:
    """Move a new evaluation to a state on its way."""
    if status == "queued":
        return
    assert services.claim_evaluation(evaluation.pk, "queued", "building", BUILDER)
    if status == "building":
        return
    services.record_gate(evaluation.pk, BUILDER, factories.compiled())
    services.finish_build(evaluation.pk, BUILDER)
    if status == "measuring":
        assert services.claim_evaluation(evaluation.pk, "built", "measuring", GPU)
        services.record_gate(evaluation.pk, GPU, factories.gate("integrity"))


def work_in_flight(alice: User) -> None:
    """Write runs and evaluations in every state on their way."""
    services.start_run(task_slug=TASK, agent_slug="test", label="queued")
    started("at work")
    for status in ("queued", "building", "built", "measuring"):
        advance(requested(started(f"round {status}"), "round"), status)
        advance(requested(started(f"final {status}"), "final"), status)
        kernel = services.submit_kernel(
            task_slug=TASK, source=SOURCE, owner=alice, label=f"kernel {status}"
        )
        advance(kernel.evaluations.get(), status)
    external = services.start_external_run(
        owner=alice, task_slug=TASK, name="mine", visibility="public", label="external"
    )
    services.request_verdict(external, alice, SOURCE)
    cancelled = started("cancelled")
    services.cancel_run(cancelled, alice if cancelled.owner_id == alice.pk else None)
    ended = started("ended")
    evaluation = requested(ended, "final")
    advance(evaluation, "measuring")
    report = factories.report(task_hash=HASH)
    services.finish_evaluation(evaluation.pk, GPU, report)


def main(path: Path) -> None:
    call_command("migrate", verbosity=0)
    work_in_flight(catalogue())
    print(json.dumps({run.label: run.status for run in Run.objects.order_by("created_at")}))
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), Path()]
    program = Path(os.environ.get("POSTGRES_BIN", folders[0])) / "pg_dump"
    words = [program, "--no-owner", "--no-privileges", "--rows-per-insert=100"]
    words.append(os.environ["DATABASE_URL"])
    dumped = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    kept = [line for line in dumped.splitlines() if line and not line.startswith(("--", "\\"))]
    path.write_bytes(lzma.compress("\n".join(kept).encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
