"""Tests of the data set of everything public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from arena.runs.models import Measurement, Run
from tests.arena.factories import finished

pytestmark = pytest.mark.django_db


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_data_set_has_the_public_run_with_all_parts_and_no_private_one(
    start: Any, alice: Any, tmp_path: Path
) -> None:
    shown = finished(start(owner=alice))
    hidden = finished(start(owner=alice, visibility="owner"))
    call_command("export_dataset", str(tmp_path / "set"), licence="CC0-1.0")
    folder = tmp_path / "set"
    (run,) = read(folder / "runs.jsonl")
    assert (run["id"], run["task"], run["track"]) == (shown.pk, "relu", "cpp-to-cpp")
    assert run["unseen_speedup"] == Run.objects.get(pk=shown.pk).unseen_speedup
    verdicts = read(folder / "verdicts.jsonl")
    assert {each["scope"] for each in verdicts} <= {"round", "final"} and verdicts
    (kernel,) = read(folder / "kernels.jsonl")
    assert kernel["files"] == shown.submissions.get().files
    measured = Measurement.objects.filter(evaluation__submission__run=shown)
    cases = read(folder / "cases.jsonl")
    assert len(cases) == measured.public().count() < measured.count()
    assert len(read(folder / "traces" / f"{shown.pk}.jsonl")) == shown.events.count()
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert hidden.pk not in text and "alice" not in text
    card = (folder / "README.md").read_text()
    assert "| `runs.jsonl` | 1 |" in card and "CC0-1.0" in card


def test_data_set_is_not_written_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(CommandError, match="not empty"):
        call_command("export_dataset", str(tmp_path))
