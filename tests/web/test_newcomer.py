"""A newcomer in a real browser: signs up, submits a kernel, and sees the real judge judge it.

Then a kernel on a task that was published here is judged, judged again, and put into quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.tasks.spec import folder_of
from tests.runners.agents.real_arena import OPERATOR, SYNC, TASK
from tests.runners.house import ROOT, House
from tests.web.conftest import DESK, TIMEOUT_MS

JUDGED_MS = 480_000
SOURCE = folder_of(ROOT / "tasks", OPERATOR) / "honest" / "vectorised.cpp.cpp"

PASSWORD = "of-the-staff"
PUBLISH = f"""
from django.contrib.auth import get_user_model
from arena.curation import checks, drafts
from tests.runners.worker.test_checking import NAME, small_files
users = get_user_model().objects
ada = users.create_user("ada", password={PASSWORD!r}, is_staff=True)
grace = users.create_user("grace", is_staff=True)
draft = drafts.create(ada, {{NAME: small_files()}}, "a test")[0]
hardware = checks.hardware_for_checks()[0]
check = draft.checks.create(content_hash=draft.content_hash, hardware=hardware, requested_by=ada)
assert checks.claim_check(check.pk, "test") and checks.finish_check(check.pk, "test", True)
drafts.request_review(draft, ada)
drafts.review(draft, grace, draft.content_hash, True, "")
print(drafts.publish(draft, ada)[0].task.slug)
print(draft.files["honest/backward.cpp.cpp"])
"""
"""Publishes a task; `tests/runners/worker/test_checking.py` has a check by a worker."""

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Start an arena with one real task, and a judge with few and short measurements."""
    house = House(tmp_path_factory.mktemp("newcomer"))
    (house.home / "tasks").mkdir()
    (house.home / "tasks" / OPERATOR).symlink_to(folder_of(ROOT / "tasks", OPERATOR))
    house.env |= {
        "ARENA_TASKS": str(house.home / "tasks"),
        "ARENA_TEST_JUDGE": "quick_evaluation.py",
    }
    try:
        house.migrate()
        house.python(SYNC)
        house.open()
        house.wait_until(lambda: bool(house.rows("SELECT * FROM catalog_hardware")), 30)
        house.start_web()
        yield house
    finally:
        house.close()


@pytest.fixture(scope="module")
def address(house: House) -> str:
    return f"http://127.0.0.1:{house.web_port}"


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
    row = page.locator("table tbody tr", has_text="my first").inner_text()
    assert "newcomer" in row and "×" in row
    assert errors == []
    context.close()


def test_kernel_on_a_published_task_is_judged_again_and_put_into_quarantine(
    browser: Any, house: House, address: str
) -> None:
    task, source = house.python(PUBLISH).split("\n", 1)
    context = browser.new_context(viewport=DESK, base_url=address)
    page = context.new_page()
    page.goto(f"/login/?next=/submit/?task={task}")
    page.fill("[name=username]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url("**/submit/**", timeout=TIMEOUT_MS)
    page.fill("[name=source]", source)
    page.fill("[name=label]", "backward")
    page.select_option("[name=visibility]", "public")
    page.click("main button:has-text('Submit')")
    page.wait_for_url("**/runs/*/", timeout=TIMEOUT_MS)
    run_page = page.url
    page.wait_for_selector('[data-connection][data-state="ended"]', timeout=JUDGED_MS)
    page.wait_for_selector("#verdict >> text=Final verdict on round 1", timeout=TIMEOUT_MS)
    assert page.locator('.gates li[data-verdict="passed"]').count() == 5

    page.goto(f"/curate/rejudge/?task={task}")
    page.fill("[name=reason]", "The judge changed.")
    page.click("button:has-text('Judge 1 verdict again')")
    page.wait_for_selector('[data-state="running"]', timeout=TIMEOUT_MS)
    page.wait_for_selector('[data-state="ended"]', timeout=JUDGED_MS)
    row = page.inner_text("table tbody tr")
    assert "Replaced" in row and len(re.findall(r"[0-9.]+×", row)) == 2
    page.goto(run_page)
    assert page.locator("summary:has-text('Earlier verdicts, 1')").count() == 1

    page.goto("/kernels/")
    assert page.locator("tbody tr:has-text('backward')").count() == 1
    page.goto("/curate/quarantine/")
    page.fill("[name=name]", run_page.rstrip("/").rpartition("/")[2])
    page.fill("[name=reason]", "It read the clock.")
    page.click("button:has-text('Put into quarantine')")
    page.wait_for_selector("[role=status]:has-text('is in quarantine')", timeout=TIMEOUT_MS)
    page.goto("/kernels/")
    assert page.locator("tbody tr:has-text('backward')").count() == 0
    page.goto(run_page)
    assert page.locator("text=It read the clock.").count() == 1
    context.close()
