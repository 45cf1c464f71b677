"""Rules of the layout, each broken by one small checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "layout"
LIMITS = "closure-lines = 3\nfolder-modules = 1\nfunction-lines = 3\ntemplate-columns = 20\n"
ROW = {"escapes": [], "passes": []}
BROKEN = {
    "words": {"arena/a.py": "is_production = 1\n"},
    "words of a template": {"templates/a.html": "{{ composition }}\n"},
    "words of a string": {"runners/a.py": 'read("repository.toml")\n'},
    "tracks": {"arena/a.py": 'same = track == "cpp->cpp"\n'},
    "tracks of a constant": {"evaluation/judge/a.py": "same = options.track in (TRACK, 1)\n"},
    "places": {f"evaluation/kinds/{n}/judge.py": "Report()\n" for n in "ab"},
    "closure": {
        "evaluation/sandboxed/a.py": "from evaluation.tasks import b\n",
        "evaluation/tasks/b.py": "b = 1\n" * 3,
    },
    "folders": {"arena/a.py": "", "arena/b.py": ""},
    "functions": {"arena/a.py": "def long():\n" + "    print()\n" * 3},
    "columns": {"templates/a.html": "a" * 21},
    "mechanisms": {
        "benchmarks/results/ablation-cpu.json": json.dumps({"mechanisms": {"values": ROW}})
    },
}
KEPT = {
    "arena/a.py": '"""Tasks of production."""\n\nsame = name == "relu"\n',
    "arena/pages/production.py": "production = 1\n",
    "evaluation/kinds/a.py": "Report(track == TRACK)\n",
    "evaluation/importers/a.py": "repository = 1\n",
    "templates/a.html": "production\n",
    "benchmarks/results/ablation-cpu.json": json.dumps({"mechanisms": {"values": ROW}}),
    "benchmarks/results/ablation-gpu.json": json.dumps(
        {"mechanisms": {"values": {**ROW, "escapes": ["skip"]}}}
    ),
}


def layout(root: Path, files: dict[str, str], exempt: str = "") -> subprocess.CompletedProcess[str]:
    """Check a repository of some files."""
    settings = f"[tool.layout]\n{LIMITS}\n[tool.layout.exempt]\n{exempt}"
    for name, text in {"pyproject.toml": settings, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for words in (("init", "--quiet"), ("add", ".")):
        subprocess.run(("git", *words), cwd=root, check=True)
    return subprocess.run((sys.executable, SCRIPT, root), capture_output=True, text=True)


@pytest.mark.parametrize("rule", BROKEN)
def test_rule_that_is_broken_is_named(rule: str, tmp_path: Path) -> None:
    checked = layout(tmp_path, BROKEN[rule])
    assert checked.returncode == 1, checked.stderr
    assert {line.split(":")[0] for line in checked.stdout.splitlines()} == {rule.split()[0]}


def test_checkout_that_keeps_every_rule_is_accepted(tmp_path: Path) -> None:
    checked = layout(tmp_path, KEPT)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("exempt", ["words = 1", 'words = ["arena/a.py"]'])
def test_file_that_is_exempt_is_accepted(exempt: str, tmp_path: Path) -> None:
    assert layout(tmp_path, BROKEN["words"], exempt).returncode == 0


@pytest.mark.parametrize("exempt", ["words = 19", 'words = ["arena/a.py", "arena/b.py"]'])
def test_exemption_that_nothing_needs_is_refused(exempt: str, tmp_path: Path) -> None:
    checked = layout(tmp_path, BROKEN["words"], exempt)
    assert checked.returncode == 1
    assert "[tool.layout.exempt]" in checked.stdout
