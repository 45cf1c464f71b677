"""Agents are found by looking, one by one: an unfinished one is left out, and fails nobody else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import runners.agents
from arena.catalog.models import Agent
from arena.catalog.services import AgentSpec, sync_agents
from runners.agent import confinement
from runners.agents import BadAgent, load
from runners.catalog import sync
from tests.runners.agents.test_agents import Studio, timed

MINE = """
from runners.agents import Spec

SPECS = (Spec(slug="mine", title="Mine", description="It says hello."),)


def work(desk, settings):
    desk.say("hello")
"""
UNFINISHED = "SPECS = ("


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second folder of agents, beside those of this checkout."""
    monkeypatch.setattr(runners.agents, "__path__", [*runners.agents.__path__, str(tmp_path)])
    return tmp_path


def test_a_module_written_later_is_known_at_once_and_as_it_was_edited_last(folder: Path) -> None:
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
        (MINE.replace("def work", "def play"), r"an agent has work\(desk, settings\)"),
        (MINE.replace('"mine"', '"My agent"'), "ValueError: a slug is .*'My agent'"),
        (MINE.replace('"Mine"', "None"), "ValueError: title should be a text: None"),
        (MINE.replace('."', '.", tasks="a/b"', 1), "ValueError: tasks of mine should be a list"),
        (MINE.replace('."', '.", settings={"a": {1}}'), "settings of mine are not JSON: .*set"),
        (MINE.replace('."', '.", settings=["a"]'), "settings of mine should be an object"),
        (MINE + "\nSPECS = SPECS * 2", "two of its SPECS have the slug 'mine'"),
    ],
)
def test_what_is_no_agent_is_told_why(folder: Path, source: str, problem: str) -> None:
    (folder / "mine.py").write_text(source)
    with pytest.raises(BadAgent, match=f"^runners/agents/mine.py: .*{problem}"):
        load("mine")


@pytest.mark.django_db
def test_what_is_no_agent_is_left_out_of_the_catalog_and_the_others_are_in_it(
    folder: Path,
) -> None:
    (folder / "aa.py").write_text(UNFINISHED)
    (folder / "mine.py").write_text(MINE)
    (problem,) = sync()
    assert problem.startswith("runners/agents/aa.py: SyntaxError: ")
    assert Agent.objects.get(slug="mine", active=True).adapter == "mine"
    assert Agent.objects.get(slug="tuner", active=True).adapter == "tuner"


@pytest.mark.django_db
def test_a_slug_is_of_the_module_that_had_it_first(folder: Path) -> None:
    sync_agents([AgentSpec("mine", "Mine", "mine")])
    for name in ("copy", "mine"):
        (folder / f"{name}.py").write_text(MINE)
    assert sync() == ["runners/agents/copy.py: its slug 'mine' is that of runners/agents/mine.py"]
    assert Agent.objects.get(slug="mine").adapter == "mine"


def test_an_unfinished_agent_fails_no_other_at_its_desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "checkout" / "runners"
    shutil.copytree(confinement.PACKAGE, package)
    (package / "agents" / "aa.py").write_text(UNFINISHED)
    monkeypatch.setattr(confinement, "PACKAGE", package)
    studio = Studio(tmp_path, "int f();\n")
    ended = studio.work("tuner", lambda source: timed(1.0))
    assert (ended.code, ended.stderr) == (0, "")
    assert studio.asked == ["int f();\n"]
