"""Tests of the tasks that are suggested for a name that no task has."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from arena.catalog.near_tasks import near_tasks

KNOWN = ("add_rms_norm/x-to-cpp", "rms_norm/cpp-to-cpp", "rms_norm/torch-to-cpp", "x/hip-to-hip")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rms_norm", ["rms_norm/cpp-to-cpp", "rms_norm/torch-to-cpp", "add_rms_norm/x-to-cpp"]),
        ("rms_norm/cpp-to-cp", ["rms_norm/cpp-to-cpp", "rms_norm/torch-to-cpp"]),
        ("rms_norm/rust", ["rms_norm/cpp-to-cpp"]),
        ("rmsnorm/cpp-to-cpp", ["rms_norm/cpp-to-cpp"]),
        ("hip", ["x/hip-to-hip"]),
        ("", []),
    ],
)
def test_tasks_of_the_operator_come_before_others(name: str, near: list[str]) -> None:
    assert near_tasks(name, KNOWN)[: len(near)] == near
    assert near or near_tasks(name, KNOWN) == []


def test_name_of_megabytes_takes_no_memory_for_each_character() -> None:
    name = "rms_norm/" + "x" * 1_000_000
    tracemalloc.start()
    try:
        assert near_tasks(name, KNOWN) == ["rms_norm/cpp-to-cpp", "rms_norm/torch-to-cpp"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.django_db
def test_api_and_page_name_the_task_that_was_meant(client: Any, task: Any, alice: Any) -> None:
    client.force_login(alice)
    hint = client.get("/api/v1/tasks/relu/cpp-to-cp").json()["error"]["hint"]
    assert hint.startswith("Did you mean relu/cpp-to-cpp? ")
    kernel = {"task": "reluu/cpp-to-cpp", "source": "int x;"}
    answer = client.post("/api/v1/submissions", kernel, content_type="application/json")
    assert answer.status_code == 404 and answer.json()["error"]["hint"] == hint
    page = client.post("/submit/", kernel)
    assert page.status_code == 422 and "Did you mean relu/cpp-to-cpp?" in page.content.decode()
