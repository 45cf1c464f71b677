"""The client of the documentation, against a web server and workers with a stand-in judge."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from arena.runs.scoring.reward import MAX_SPEEDUP, PARITY, REFUSED, STOPPED, reward_of_speedup
from evaluation.types import GateName
from tests.runners.house import ROOT, House

DOCUMENT = ROOT / "docs" / "training-loops.md"
TOKEN = """
from arena.accounts.models import ApiToken, User
user, _ = User.objects.get_or_create(username="trainer")
print(ApiToken.issue(user, "loop", ["read", "run"])[1])
"""
KERNELS = ["speedup 2.0", "wrong", "does not compile", "no device", "speedup 4.0", "speedup 0.5"]


def example() -> str:
    (found,) = re.findall(r"```python\n(.+?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(found)


def train(house: House, folder: Path) -> list[str]:
    """Return the lines that the client prints for KERNELS."""
    client, kernels = folder / "client.py", folder / "kernels.json"
    client.write_text(example())
    kernels.write_text(json.dumps(KERNELS))
    environment = {
        "ARENA_URL": f"http://{house.start_web()}",
        "ARENA_TOKEN": house.python(TOKEN),
        "TASK": "k/cpp-to-cpp",
        "KERNELS": str(kernels),
    }
    ended = subprocess.run(
        [sys.executable, client], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr + house.logs()
    return ended.stdout.splitlines()


def test_client_of_the_documentation_gets_a_reward_for_each_kernel_above_the_quota(
    house: House, tmp_path: Path
) -> None:
    house.env["MAX_PENDING_SUBMISSIONS"] = "2"
    lines = [line.split() for line in train(house, tmp_path)]
    correctness, compiled = STOPPED[GateName.CORRECTNESS], STOPPED[GateName.COMPILE]
    assert [verdict for _, verdict in lines] == [
        "passed", "failed", "failed", "skipped", "passed", "passed",
    ]  # fmt: skip
    expected = [reward_of_speedup(1.99), correctness, compiled, None]
    expected += [reward_of_speedup(3.99), reward_of_speedup(0.49)]
    assert [None if word == "None" else round(float(word), 6) for word, _ in lines] == [
        value if value is None else round(value, 6) for value in expected
    ]


def test_formula_of_the_documentation_has_the_constants_of_the_code() -> None:
    text = DOCUMENT.read_text().replace("\N{MINUS SIGN}", "-")
    assert f"| {REFUSED:g} |" in text
    assert ", ".join(f"{value:g}" for value in STOPPED.values()) in text
    assert f"{PARITY:g} + {1 - PARITY:g} · log(low) / log({MAX_SPEEDUP:g})" in text
    assert "integrity, compile, correctness, performance, generalization" in text
