"""Production tasks and runs in the database, with the details of a verdict of the real judge.

`production_verdict.json` is what `python -m evaluation judge llama_rms_norm production
fused_norm.py --json` printed for the gates on a CPU.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from arena.catalog.models import Agent, Hardware, Operator, Task, TaskVersion
from arena.runs.models import Evaluation, GateResult, Run, Submission
from arena.runs.scoring.standings import keep_standing
from evaluation.kinds.module.architectures import find_task
from evaluation.types import Interval

VERDICT = json.loads(Path(__file__).with_name("production_verdict.json").read_text())
CEILINGS = {
    "prefill": {"speedup": 1.31, "low": 1.29, "high": 1.33},
    "decode": {"speedup": 1.18, "low": 1.15, "high": 1.21},
}


def production_task(name: str = "llama_rms_norm", kind: str = "cpu", **changes: Any) -> Task:
    """Return the task of a module, as the catalogue holds it; `changes` are of what is public."""
    architecture, module = find_task(name)
    source = {
        "architecture": architecture.name,
        "architecture_title": architecture.title,
        "family": architecture.family,
        "library": architecture.library,
        "version": "5.23.0",
        "licence": "Apache-2.0",
        "model": architecture.model,
        "module": module.module,
    }
    operator, _ = Operator.objects.get_or_create(
        slug=name,
        defaults={
            "title": module.title,
            "category": module.category,
            "families": [architecture.family],
            "level": 1,
            "prompt": f"Write a faster `{module.module}`.",
            "reference_source": "class LlamaRMSNorm(nn.Module): ...",
            "suite": "production",
            "source": source,
        },
    )
    task, _ = Task.objects.get_or_create(
        operator=operator, track="production", defaults={"status": "published"}
    )
    described = {
        "architecture": architecture.name,
        "title": architecture.title,
        "family": architecture.family,
        "phases": list(architecture.phases),
        "regimes": {"cpu": ["eager"], "gpu": ["eager", "compile", "graph"]},
        "module": module.module,
        "places": 5,
        "paths": ["model.layers.0.input_layernorm", "model.norm"],
        "constructor": [{"arguments": "256, eps=1e-06", "count": 5}],
        "shapes": [
            {
                "phase": "prefill",
                "inputs": ["bfloat16[1, 64, 256]"],
                "outputs": ["bfloat16[1, 64, 256]"],
                "count": 5,
            },
        ],
        "ceilings": {phase: CEILINGS[phase] for phase in architecture.phases if phase in CEILINGS},
        "limits": {"median": 1.304, "tail": 1.325},
        "library": architecture.library,
        "version": "5.23.0",
        "licence": "Apache-2.0",
        "unavailable": "",
        **changes,
    }
    public = {
        "kind": kind,
        "arguments": [],
        "seen_cases": [],
        "hidden_cases": {},
        "tolerance": {},
        "limits": {},
        "dtypes": ["bfloat16"],
        "starter": {f"{name}.py": "class ModelNew: ..."},
        "target_file": f"{name}.py",
        "baseline": "library",
        "production": described,
    }
    TaskVersion.objects.get_or_create(task=task, content_hash="a" * 64, defaults={"public": public})
    return task


def performance(isolated: float = 1.5, deployed: float = 1.1, **changes: Any) -> dict[str, Any]:
    """Return the detail of a performance gate with these speedups in both phases."""
    detail: dict[str, Any] = copy.deepcopy(VERDICT["performance"])
    detail |= {"isolated": isolated, "deployed": interval(deployed), "predicted": None}
    for phase in detail["best"]:
        detail["alone"][phase]["speedup"] = interval(isolated)
        detail["best"][phase]["speedup"] = interval(deployed)
        detail["regimes"][phase]["eager"]["speedup"] = interval(deployed)
    detail["wins_alone_loses_deployed"] = isolated > 1 and deployed * 1.03 < 1
    detail["noisy"] = False
    return detail | changes


def interval(speedup: float) -> dict[str, float]:
    return {"speedup": speedup, "low": speedup * 0.97, "high": speedup * 1.03}


def production_run(
    by: str = "tuner",
    on: str = "llama_rms_norm",
    detail: object = None,
    correctness: object = None,
    **more: Any,
) -> Run:
    """Return a judged run with its final verdict, whose performance gate has this detail."""
    task = production_task(on)
    agent, _ = Agent.objects.get_or_create(
        slug=by, defaults={"title": by.capitalize(), "adapter": "tuner"}
    )
    if "hardware" not in more:
        more["hardware"], _ = Hardware.objects.get_or_create(
            slug="test-cpu", defaults={"name": "Test CPU", "kind": "cpu", "queue": "hw.test-cpu"}
        )
    detail = performance() if detail is None else detail
    deployed = detail.get("deployed") if isinstance(detail, dict) else None
    scores: dict[str, Any] = {}
    if isinstance(deployed, dict):
        scores = {n: deployed.get(n) for n in Interval.__annotations__}
        scores |= {f"unseen_{name}": value for name, value in scores.items()}
    verdict = more.pop("verdict", "passed")
    status = "passed" if verdict == "passed" else "failed"
    values = {"status": status, "rounds": 1, **scores, **more}
    version = task.versions.first()
    assert version is not None
    run = Run.objects.create(task_version=version, agent=agent, **values)
    submission = Submission.objects.create(
        run=run, round=1, content_hash="b" * 64, files={f"{on}.py": "class ModelNew: ..."}
    )
    Run.objects.filter(pk=run.pk).update(final=submission)
    evaluation = Evaluation.objects.create(
        submission=submission,
        scope="final",
        hardware=run.hardware,
        status="done",
        verdict=verdict,
        judge_version="5",
        ended_at=run.ended_at or run.created_at,
        **scores,
    )
    details = {
        "integrity": {},
        "compile": VERDICT["compile"],
        "correctness": VERDICT["correctness"] if correctness is None else correctness,
        "performance": detail,
    }
    for gate, found in details.items():
        GateResult.objects.create(
            evaluation=evaluation, gate=gate, verdict="passed", passed=1, total=1, detail=found
        )
    run.refresh_from_db()
    keep_standing(run)
    return run
