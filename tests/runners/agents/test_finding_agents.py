"""Discovery of agents: a malformed module is left out and does not affect the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import runners.agents
from arena.catalog.models import Agent, Harness
from arena.catalog.services import AgentSpec, sync_agents
from runners.__main__ import main
from runners.agents import BadAgent, load
from runners.catalog import sync
from runners.session import confinement
from tests.evaluation.conftest import OPERATORS
from tests.runners.agents.test_agents import AgentHarness, timed

MINE = """
from runners.agents import Spec

SPECS = (Spec(slug="mine", title="Mine", description="It says hello."),)


def work(session, settings):
    session.message("hello")
"""
UNFINISHED = "SPECS = ("


@pytest.fixture(autouse=True)
def one_task(settings: Any) -> None:
    """Sync one operator beside the agents: all of them take ten seconds."""
    settings.ARENA_TASKS = OPERATORS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a second folder of agents, beside that of this checkout."""
    monkeypatch.setattr(runners.agents, "__path__", [*runners.agents.__path__, str(tmp_path)])
    return tmp_path


def test_load_reads_new_and_edited_modules(folder: Path) -> None:
    with pytest.raises(LookupError, match="there is no adapter 'mine' here"):
        load("mine")
    (folder / "mine.py").write_text(UNFINISHED)
    with pytest.raises(BadAgent, match=r"runners/agents/mine.py: SyntaxError: '\(' was never"):
        load("mine")
    (folder / "mine.py").write_text(MINE)
    assert load("mine").SPECS[0].title == "Mine"
    (folder / "mine.py").write_text(MINE.replace('title="Mine"', 'title="Edited"'))
    assert load("mine").SPECS[0].title == "Edited"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (UNFINISHED, "SyntaxError: "),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named"),
        ("import sys; sys.exit('usage: mine')", "SystemExit: usage: mine"),
        ("", "an agent has SPECS, a tuple of Spec"),
        ("SPECS = ()", "an agent has SPECS, a tuple of Spec"),
        (MINE.replace(",)\n", ")\n", 1), "an agent has SPECS, a tuple of Spec"),
        (MINE.replace("def work", "def play"), r"an agent has work\(session, settings\)"),
        (
            MINE.replace("session, settings", "session"),
            r"work takes \(session\); it is called as work\(session, settings\)",
        ),
        (MINE.replace('"mine"', '"My agent"'), "ValueError: a slug is .*'My agent'"),
        (MINE.replace('"Mine"', "None"), "ValueError: title should be a text: None"),
        (MINE.replace('."', '.", tasks="a/b"', 1), "ValueError: tasks of mine should be a list"),
        (MINE.replace('."', '.", settings={"a": {1}}'), "settings of mine are not JSON: .*set"),
        (MINE.replace('."', '.", settings=["a"]'), "settings of mine should be an object"),
        (MINE + "\nSPECS = SPECS * 2", "two of its SPECS have the slug 'mine'"),
    ],
)
def test_load_malformed_module_raises_with_the_reason(
    folder: Path, source: str, problem: str
) -> None:
    (folder / "mine.py").write_text(source)
    with pytest.raises(BadAgent, match=f"^runners/agents/mine.py: .*{problem}"):
        load("mine")


@pytest.mark.django_db
def test_sync_leaves_out_only_malformed_modules(
    folder: Path,
) -> None:
    (folder / "aa.py").write_text(UNFINISHED)
    (folder / "mine.py").write_text(MINE)
    (problem,) = sync().problems
    assert problem.startswith("runners/agents/aa.py: SyntaxError: ")
    assert Agent.objects.get(slug="mine", active=True).adapter == "mine"
    assert Agent.objects.get(slug="tuner", active=True).adapter == "tuner"


@pytest.mark.django_db
def test_sync_prints_agents_that_come_and_go(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.py").write_text(MINE)
    assert main(["sync"]) == 0
    assert {"added: agent mine", "added: agent tuner"} <= {*capsys.readouterr().out.splitlines()}
    assert (main(["sync"]), capsys.readouterr().out) == (0, "")
    (folder / "mine.py").unlink()
    assert (main(["sync"]), capsys.readouterr().out) == (0, "missing: agent mine\n")


WITH_SETTINGS = """
from pydantic import BaseModel


class Settings(BaseModel):
    depth: int = 1
"""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"depth": "deep"}, "settings of mine: depth: 'deep' is not a whole number"),
        ({"depht": 2}, "settings of mine: depht: is no setting; there are depth"),
    ],
)
def test_sync_leaves_out_a_module_whose_settings_do_not_fit_its_schema(
    folder: Path, source: dict[str, object], problem: str
) -> None:
    agent = MINE.replace('."', f'.", settings={source!r}') + WITH_SETTINGS
    (folder / "mine.py").write_text(agent)
    assert sync().problems == [f"runners/agents/mine.py: {problem}"]
    assert not Agent.objects.filter(slug="mine").exists()
    (folder / "mine.py").write_text(MINE + WITH_SETTINGS)
    assert sync().problems == []
    assert "depth" in Harness.objects.get(name="mine").settings_schema["properties"]


@pytest.mark.django_db
def test_sync_leaves_out_a_module_whose_settings_have_no_schema(folder: Path) -> None:
    unknown = "\nfrom collections.abc import Callable" + WITH_SETTINGS.replace(
        "int = 1", "Callable"
    )
    (folder / "mine.py").write_text(MINE + unknown)
    (problem,) = sync().problems
    assert problem.startswith("runners/agents/mine.py: Settings: Cannot generate a JsonSchema")


@pytest.mark.django_db
def test_sync_keeps_a_slug_with_its_first_module(folder: Path) -> None:
    sync_agents([AgentSpec("mine", "Mine", "mine")])
    for name in ("copy", "mine"):
        (folder / f"{name}.py").write_text(MINE)
    (problem,) = sync().problems
    assert problem == "runners/agents/copy.py: its slug 'mine' is that of runners/agents/mine.py"
    assert Agent.objects.get(slug="mine").adapter == "mine"


def test_malformed_module_does_not_affect_another_agent_at_work(tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "runners"
    shutil.copytree(confinement.PACKAGE, package)
    (package / "agents" / "aa.py").write_text(UNFINISHED)
    harness = AgentHarness(tmp_path, "int f();\n", package=package)
    ended = harness.work("tuner", lambda source: timed(1.0))
    assert (ended.code, ended.stderr) == (0, "")
    assert harness.submitted == ["int f();\n"]
