"""A newcomer in a real browser: signs up, submits a kernel, and sees the real judge judge it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runners.agents.real_arena import OPERATOR, SYNC, TASK
from tests.runners.house import ROOT, House
from tests.web.conftest import DESK, TIMEOUT_MS

JUDGED_MS, START_SECONDS = 480_000, 240
SOURCE = ROOT / "tasks" / OPERATOR / "honest" / "vectorised.cpp.cpp"

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start an arena with one real task, and a judge with few and short measurements."""
    house = House(tmp_path_factory.mktemp("newcomer"))
    (house.home / "tasks").mkdir()
    (house.home / "tasks" / OPERATOR).symlink_to(ROOT / "tasks" / OPERATOR)
    house.env |= {
        "ARENA_TASKS": str(house.home / "tasks"),
        "ARENA_TEST_JUDGE": "quick_evaluation.py",
    }
    try:
        migrate = (sys.executable, "manage.py", "migrate", "--verbosity", "0")
        subprocess.run(migrate, cwd=ROOT, env=house.env, check=True, timeout=START_SECONDS)
        sync = (sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", SYNC)
        subprocess.run(sync, cwd=ROOT, env=house.env, check=True, timeout=START_SECONDS)
        house.open()
        house.wait_until(lambda: bool(house.rows("SELECT * FROM catalog_hardware")), 30)
        yield f"http://{house.start_web()}"
    finally:
        house.close()


def test_newcomer_signs_up_submits_a_kernel_and_sees_it_judged(
    browser: Any, address: str, tmp_path: Path
) -> None:
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: line.type == "error" and errors.append(line.text))

    page.goto(address)
    page.click(".tools >> text=Submit")
    page.click(".prose >> text=Sign up")
    page.fill("[name=username]", "newcomer")
    page.fill("[name=password1]", "a-good-password")
    page.fill("[name=password2]", "a-good-password")
    page.press("[name=password2]", "Enter")
    page.wait_for_url(f"{address}/submit/")
    assert page.inner_text(".menu summary").strip() == "newcomer"

    page.fill("[name=task]", TASK)
    page.fill("[name=source]", SOURCE.read_text())
    page.fill("[name=label]", "my first")
    page.click("main button:has-text('Submit')")
    page.wait_for_url("**/runs/*/", timeout=TIMEOUT_MS)
    assert "newcomer" in page.inner_text("#run-head h1")
    page.wait_for_selector('[data-connection][data-state="ended"]', timeout=JUDGED_MS)
    page.wait_for_selector("#verdict >> text=Final verdict on round 1", timeout=TIMEOUT_MS)
    assert page.locator('.gates li[data-verdict="passed"]').count() == 5

    page.click(".menu summary")
    page.click("text=Submitted kernels")
    row = page.inner_text("table tbody tr")
    assert "my first" in row and "newcomer" in row and "×" in row
    assert errors == []
    context.close()
