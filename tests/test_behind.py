"""`scripts/behind`: which pins of agents are behind, from recorded answers of npm and pip."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HARNESSES = ROOT / "runners" / "harnesses"
NPM = json.loads((HARNESSES / "package.json").read_text())["dependencies"]
PYPI = dict(re.findall(r"^([\w.-]+)==(\S+)", (HARNESSES / "requirements.in").read_text(), re.M))
PROGRAM = """\
#!{python}
import json, sys
answers = json.load(open({answers!r}))
name = sys.argv[-3] if sys.argv[-1] == "--json" else sys.argv[-1]
if name not in answers:
    npm, pip = "npm error 404 Not Found", "ERROR: No matching distribution"
    sys.exit(npm if sys.argv[-1] == "--json" else pip)
print(answers[name])
"""


@pytest.fixture
def answers(tmp_path: Path) -> dict[str, str]:
    """Return what the registries print for the pins, in the words of npm 10 and pip 23."""
    older = "Available versions: {0}, 0.0.2, 0.0.1\n  INSTALLED: {0}\n  LATEST:    {0}"
    found = {name: json.dumps(version) for name, version in NPM.items()}
    return found | {
        name: f"{name} ({version})\n{older.format(version)}" for name, version in PYPI.items()
    }


def behind(tmp_path: Path, answers: dict[str, str]) -> tuple[int, list[str]]:
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    for name in ("npm", "python"):
        program = tmp_path / name
        program.write_text(
            PROGRAM.format(python=sys.executable, answers=str(tmp_path / "answers.json"))
        )
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": str(tmp_path / "python"),
    }
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "behind"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_behind_with_newest_pins_prints_each_and_succeeds(
    tmp_path: Path, answers: dict[str, str]
) -> None:
    code, lines = behind(tmp_path, answers)
    pins = NPM | PYPI
    assert lines == [f"{name} {version}: the newest" for name, version in pins.items()]
    assert code == 0


def test_behind_names_the_newer_release_of_either_registry(
    tmp_path: Path, answers: dict[str, str]
) -> None:
    answers["@openai/codex"] = '"99.0.1"'
    answers["litellm"] = "litellm (99.1.0)\nAvailable versions: 99.1.0, 99.0.0"
    code, lines = behind(tmp_path, answers)
    newer = [line for line in lines if not line.endswith("the newest")]
    assert newer == [
        f"@openai/codex {NPM['@openai/codex']}: behind 99.0.1",
        f"litellm {PYPI['litellm']}: behind 99.1.0",
    ]
    assert code == 1


def test_behind_reports_a_registry_that_has_no_answer(
    tmp_path: Path, answers: dict[str, str]
) -> None:
    del answers["opencode-ai"], answers["mcp"]
    code, lines = behind(tmp_path, answers)
    assert f"opencode-ai {NPM['opencode-ai']}: not known, npm error 404 Not Found" in lines
    assert f"mcp {PYPI['mcp']}: not known, ERROR: No matching distribution" in lines
    assert code == 2
