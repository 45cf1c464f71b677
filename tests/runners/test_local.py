"""An experiment in one process: no server, no queue, no library but Django, and no run twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.runners.house import ROOT, TARGET, House

QUICK = Path(__file__).with_name("quick_local.py")
PLAN = """
title = "Pair"
agents = ["test"]
tasks = ["*/cpp-to-cpp"]
repeats = 2
budget = { rounds = 3, seconds = 60 }
"""
ONCE = PLAN.replace("repeats = 2", "repeats = 1")


class Box(House):
    """A machine with a checkout and a catalog, and nothing that runs."""

    begun: subprocess.Popen[str] | None = None

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start an experiment, whose lines must come without help of the environment."""
        command = [sys.executable, str(QUICK), "experiment", str(self.plan), "--until-done", *words]
        env = {name: value for name, value in self.env.items() if name != "PYTHONUNBUFFERED"}
        self.begun = subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self.begun

    def close(self) -> None:
        if self.begun is not None and self.begun.poll() is None:  # its test failed
            self.begun.kill()
            self.begun.wait()
        super().close()

    def work_off(self, *words: str, seconds: float = 120) -> tuple[int, str]:
        process = self.begin(*words)
        told, _ = process.communicate(timeout=seconds)
        return process.returncode, told

    def lay_plan(self, text: str = PLAN, source: str = "speedup 1.5", target: str = TARGET) -> None:
        self.plan = self.home / "pair.toml"
        self.plan.write_text(text)
        steps = [{"write": target, "text": source}, {"check": ""}]
        with (
            closing(sqlite3.connect(self.home / "arena.sqlite3", timeout=10)) as database,
            database,
        ):
            settings = json.dumps({"steps": steps})
            database.execute(
                "UPDATE catalog_agent SET settings = ? WHERE slug = 'test'", [settings]
            )

    def statuses(self) -> list[str]:
        return [row["status"] for row in self.rows("SELECT status FROM runs_run ORDER BY status")]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path)
    box.furnish()
    box.lay_plan()
    yield box
    box.close()


def test_an_experiment_is_worked_off_exported_and_not_repeated(box: Box) -> None:
    results = box.home / "results.jsonl"
    code, told = box.work_off("--export", str(results))
    assert code == 0, told
    assert "[2/2] k/cpp-to-cpp by test on fake-cpu: passed, 1.50x" in told
    assert "pair: 2 of 2 runs are judged." in told
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["run"]["repeat"], line["run"]["speedup"]) for line in lines] == [
        (0, 1.5),
        (1, 1.5),
    ]
    before = results.read_bytes()
    code, told = box.work_off("--export", str(results))
    assert code == 0 and "begins" not in told
    assert results.read_bytes() == before


def test_another_machine_goes_on_with_what_is_left(box: Box, tmp_path: Path) -> None:
    results, whole = tmp_path / "first.jsonl", tmp_path / "whole.jsonl"
    box.lay_plan(ONCE)
    assert box.work_off("--export", str(results))[0] == 0
    (tmp_path / "other").mkdir()
    other = Box(tmp_path / "other")
    other.furnish()
    other.lay_plan()
    code, told = other.work_off("--continue", str(results), "--export", str(whole))
    other.close()
    assert code == 0, told
    assert told.count("begins") == 1 and "pair: 2 of 2 runs are judged." in told
    first, _ = (json.loads(line) for line in whole.read_text().splitlines())
    assert first | {"experiment": None} == json.loads(results.read_text()) | {"experiment": None}
    code, told = box.work_off("--continue", str(tmp_path / "none.jsonl"))
    assert code == 1 and "none.jsonl: No such file" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_interrupted_is_started_again(box: Box, number: signal.Signals) -> None:
    box.lay_plan(source="hangs")
    process = box.begin()
    box.wait_until(
        lambda: bool(box.rows("SELECT * FROM runs_evaluation WHERE status = 'measuring'")), 30
    )
    process.send_signal(number)
    told, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    box.lay_plan(source="speedup 1.5")
    code, told = box.work_off()
    assert code == 0, told
    assert box.statuses() == ["broken", "passed", "passed"]


def test_a_run_that_broke_is_tried_again_by_the_next_call(box: Box) -> None:
    box.lay_plan(ONCE, source="breaks")
    code, told = box.work_off()
    assert code == 1 and "0 of 1 runs are judged" in told
    box.lay_plan(ONCE)
    assert box.work_off()[0] == 0
    assert box.statuses() == ["broken", "passed"]


def test_no_run_is_started_after_its_time(box: Box) -> None:
    box.lay_plan(ONCE)
    code, told = box.work_off("--start-within", "0")
    assert code == 1 and "0 of 1 runs are judged" in told
    assert box.statuses() == ["queued"]
    assert box.work_off()[0] == 0


def test_runs_go_side_by_side_when_asked(box: Box) -> None:
    box.lay_plan(source="waits, speedup 1.5")
    process = box.begin("--at-once", "2")
    assert process.stdout
    lines = iter(process.stdout.readline, "")
    for _ in range(2):
        assert any("begins" in line for line in lines)
    with box.judge_waits() as go:
        go.touch()
        rest = "".join(lines)
        assert process.wait() == 0, rest
    assert "begins" not in rest
    assert "[1/2]" in rest and "[2/2]" in rest


def test_two_gpus_are_measured_on_at_once_each_by_one_judge_that_sees_no_other(box: Box) -> None:
    box.lay_gpus("a", "b")
    plan = PLAN.replace("cpp-to-cpp", "cuda-to-cuda").replace("repeats = 2", "repeats = 4")
    box.lay_plan(plan, source="is built beside, meets another, speedup 1.5", target="k.cu")
    code, told = box.work_off("--at-once", "4")
    assert code == 0, told
    assert "kernels are measured on 2 x Fake GPU" in told
    assert told.count("by test on fake-gpu: passed") == 4, "all of a model have one name"
    (row,) = box.rows("SELECT * FROM catalog_hardware WHERE slug = 'fake-gpu'")
    both = json.loads(row["fingerprint"])["uuid"].split(", ")
    assert [uuid[0] for uuid in both] == ["a", "b"]

    measured = box.turns("measure")
    assert len(measured) == 8  # four rounds, and four final verdicts
    on = {gpu: [turn for turn in measured if turn.gpu == gpu] for gpu in ("a", "b")}
    assert on["a"] and on["b"] and len(on["a"]) + len(on["b"]) == 8
    for turns in on.values():
        assert not any(one.meets(then) for one, then in pairwise(turns)), "one at a time"
        assert len({turn.started for turn in turns}) == 1, "its judge stays"
    assert any(one.meets(other) for one in on["a"] for other in on["b"])
    if len(os.sched_getaffinity(0)) > 1:
        assert not on["a"][0].cores & on["b"][0].cores
    built = box.turns("build")
    assert any(one.meets(other) for one in built for other in measured), "built while measured"
    assert {turn.gpu for turn in built} == {os.environ.get("CUDA_VISIBLE_DEVICES")}
    assert {turn.arch for turn in (*built, *measured)} == {"sm_90a"}, (
        "of the GPU, not of who builds"
    )


def test_what_was_judged_on_a_gpu_that_is_here_no_more_is_not_repeated(box: Box) -> None:
    box.lay_gpus("a")
    box.lay_plan(ONCE.replace("cpp-to-cpp", "cuda-to-cuda"), target="k.cu")
    assert box.work_off()[0] == 0
    (box.home / "judge" / "devices.json").unlink()
    code, told = box.work_off()
    assert code == 0, told
    assert "begins" not in told and "1 of 1 runs are judged" in told


def test_a_home_that_an_arena_holds_is_refused(box: Box) -> None:
    box.lay_plan(source="hangs")
    process = box.begin()
    box.wait_until(lambda: bool(box.rows("SELECT * FROM runs_submission")), 30)
    code, told = box.work_off()
    assert code == 1 and "an arena runs in" in told and "ARENA_HOME=" in told
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('hardware = ["h100"]', "There is no h100 on this machine. It has fake-cpu."),
        ('description = "x"\n[[agents]]', "pair.toml:"),
    ],
)
def test_a_plan_that_cannot_be_worked_off_here_says_why(box: Box, line: str, message: str) -> None:
    box.lay_plan(PLAN + line)
    code, told = box.work_off()
    assert code == 1 and message in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('agents = ["test"]', 'agents = ["nobody"]', "There is no agent 'nobody'"),
        ('"*/cpp-to-cpp"', '"softmx/cpp-to-cpp"', "There is no task 'softmx/cpp-to-cpp'"),
    ],
)
def test_a_plan_with_an_unknown_name_is_refused_before_devices_are_measured(
    box: Box, right: str, wrong: str, message: str
) -> None:
    box.lay_plan(PLAN.replace(right, wrong))
    code, told = box.work_off()
    assert code == 1 and message in told and "looking at this machine" not in told


def test_it_is_an_option_of_the_command_line_alone(box: Box) -> None:
    program = (
        "from django.core.management import CommandError, call_command\n"
        f"try: call_command('experiment', {str(box.plan)!r}, '--until-done')\n"
        "except CommandError as error: print(error)"
    )
    assert "`manage.py` alone" in box.python(program)


def test_checks_without_a_web_server_pass_where_its_libraries_are(tmp_path: Path) -> None:
    env = {**os.environ, "ARENA_HEADLESS": "1", "ARENA_HOME": str(tmp_path)}
    command = (sys.executable, ROOT / "manage.py", "check")
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
