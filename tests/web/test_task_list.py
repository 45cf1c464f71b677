"""The list of tasks by state and order, and submitted kernels by task."""

from __future__ import annotations

import re
from functools import partial

import pytest
from django.utils import timezone

from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


@pytest.fixture
def mixed(judged):
    """Judge a fast, a slow and a failed task, and none of a fourth."""
    judged("a", "relu", 2.0)
    judged("a", "gelu", 0.8)
    judged("a", "silu", status="failed")
    judged("a", "mish", status="cancelled", rounds=0)


def operators(client, query: str = "") -> list[str]:
    page = client.get(f"/tasks/?{query}").content.decode()
    return re.findall(r'<th scope="row"><a class="mono" href="/tasks/([^/]+)/', page)


def test_task_page_shows_the_rules_that_its_agents_read(client, task):
    shown = client.get(task.get_absolute_url()).content.decode()
    assert "TASK.md" not in shown
    version = task.version
    version.public["starter"]["TASK.md"] = "No files and no processes."
    version.save(update_fields=["public"])
    shown = client.get(task.get_absolute_url()).content.decode()
    assert 'href="#TASK-md-L1"' in shown and 'id="TASK-md-L1"' in shown
    assert "No files and no processes." in shown and re.search(r"read by\s+agents", shown)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=tried", ["gelu", "relu", "silu"]),
        ("state=solved", ["gelu", "relu"]),
        ("state=unsolved", ["silu"]),
        ("state=slower", ["gelu"]),
        ("state=solved&order=fastest", ["relu", "gelu"]),
        ("state=tried&order=slowest", ["gelu", "relu", "silu"]),
        ("state=tried&q=lu&order=fastest&category=none", []),
    ],
)
def test_tasks_are_listed_by_state_and_order(client, mixed, query, found):
    assert operators(client, query) == found


def test_tried_tasks_stand_first_and_states_are_counted(client, mixed):
    assert operators(client)[:3] == ["gelu", "relu", "silu"]
    assert operators(client, "order=name") == sorted(operators(client))
    assert operators(client, "state=untried") == ["mish"]
    page = client.get("/tasks/?state=solved").content.decode()
    assert '<option value="solved" selected>Solved (2)</option>' in page
    assert "There is no state “none” here." in client.get("/tasks/?state=none").content.decode()
    assert len(operators(client, "state=none")) == len(operators(client))
