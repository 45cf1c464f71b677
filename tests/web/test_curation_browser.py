"""A browser test: a task is uploaded, checked, reviewed by a second account, and published.

The steps of the check are written as a worker writes them; `tests/runners/worker/test_checking.py`
has a real one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group
from django.utils import timezone

from arena.catalog.models import Hardware, Worker
from arena.curation import checks
from arena.curation.models import Check
from arena.runs.models import Run
from tests.arena.curation.conftest import NAME, admission
from tests.arena.curation.test_archives import in_folder, tarred
from tests.arena.factories import LEASE, judged_run
from tests.web.conftest import DESK, PHONE, TIMEOUT_MS

PASSWORD = "of-both-accounts"
CUT_ON_A_PHONE = """() => [...document.querySelectorAll("td[data-label], .scroll, .outline")]
    .filter((box) => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight + 1)
    .map((box) => box.textContent)"""

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def arrange() -> None:
    """Create an admin, a reviewer and a worker; the server knows no quick hash of passwords."""
    password = PBKDF2PasswordHasher().encode(PASSWORD, "salt-of-the-test")
    users = get_user_model().objects
    users.create(username="ada", password=password, is_staff=True)
    reviewer = users.create(username="grace", password=password)
    reviewer.groups.add(Group.objects.get_or_create(name="Reviewers")[0])
    hardware = Hardware.objects.create(slug="cpu", name="A CPU", kind="cpu", queue="hw.cpu")
    tomorrow = timezone.now() + timedelta(days=1)  # so that a slow test finds it alive
    Worker.objects.create(
        name="w", hardware=hardware, queues=["hw.cpu"], pid=1, last_seen_at=tomorrow
    )


def rank(*agents: str) -> None:
    """Give these agents a place on the leaderboard of the device."""
    for number, slug in enumerate(agents):
        judged_run(slug, speedup=2.0 + number, hardware=Hardware.objects.get())


def newest_run(agent: str) -> str:
    return str(Run.objects.filter(agent__slug=agent).latest("created_at").pk)


def step(*bodies: dict[str, Any]) -> None:
    """Write steps of the newest check, which the first call claims."""
    check = Check.objects.latest("pk")
    checks.claim_check(check.pk, LEASE)
    checks.add_steps(check.pk, LEASE, list(bodies))


def finish() -> None:
    assert checks.finish_check(Check.objects.latest("pk").pk, LEASE, admitted=True)


def test_task_is_uploaded_checked_reviewed_and_published(
    open_page: Callable[..., Any], server: Any, in_thread: Any, tmp_path: Path
) -> None:
    database = in_thread(sys.modules[__name__])
    database.arrange()
    archive = tmp_path / "vector_sum.tar"
    archive.write_bytes(tarred(in_folder()))

    def page_of(name: str) -> Any:
        page = open_page("/login/?next=/curate/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", PASSWORD)
        page.press("[name=password]", "Enter")
        page.wait_for_url("**/curate/", timeout=TIMEOUT_MS)
        return page

    author, second = page_of("ada"), page_of("grace")
    author.goto(f"{server.url}/curate/new/")
    author.set_input_files("[name=archive]", str(archive))
    author.locator("[data-upload] button").click()
    author.wait_for_url("**/curate/drafts/*/", timeout=TIMEOUT_MS)
    address = author.url

    # The editor shows a problem while somebody types, and violates no policy.
    author.goto(f"{address}file/?path=task.toml")
    author.click(".cm-content")
    author.keyboard.press("Control+Home")
    author.keyboard.type("wrong ")
    author.wait_for_selector("[data-problems] >> text=not TOML", timeout=TIMEOUT_MS)
    author.keyboard.press("Control+z")
    author.wait_for_selector("text=can be read without problems", timeout=TIMEOUT_MS)
    before = author.input_value("[name=text]")
    author.keyboard.press("Control+Home")
    author.keyboard.press("Shift+End")
    author.keyboard.type("wrong ")
    assert author.input_value("[name=text]") == "wrong \n" + before.partition("\n")[2]
    for _ in range(2):
        author.keyboard.press("Control+z")
    assert author.input_value("[name=text]") == before

    author.goto(address)
    author.click("button >> text=Run the checks")
    author.click("th a >> text=On A CPU")
    task = f"{NAME}/cpp-to-cpp"
    attempt = {
        "type": "attempt", "task": task, "name": "no_scale", "role": "mutant", "note": "",
        "verdict": "failed", "reason": "WRONG_VALUES", "as_expected": True, "seconds": 1.0,
    }  # fmt: skip
    database.step({"type": "task", "task": task, "count": 1}, attempt)
    author.wait_for_selector("text=no_scale", timeout=TIMEOUT_MS)
    database.step(admission(task, "0" * 64))
    database.finish()
    author.wait_for_selector('[data-state="passed"]', timeout=TIMEOUT_MS)

    # A phone shows every step, file and text whole.
    author.set_viewport_size(PHONE)
    for path in (author.url, address, f"{address}file/?path=task.toml"):
        author.goto(path)
        assert author.evaluate(CUT_ON_A_PHONE) == [], path
    author.set_viewport_size(DESK)

    author.goto(address)
    author.click("button >> text=Ask for a review")
    author.wait_for_selector("text=waits for a second person", timeout=TIMEOUT_MS)

    second.goto(f"{address}diff/")
    assert second.locator("text=Nothing is published under this name yet").count() == 1
    second.goto(address)
    second.locator("button >> text=Approve").focus()
    second.keyboard.press("Enter")
    second.wait_for_selector("text=Staff can publish it", timeout=TIMEOUT_MS)

    author.goto(address)
    author.check("[name=unjudged]")  # of three tracks the check judged one
    author.click("button >> text=Publish")
    author.wait_for_selector(f".track-list >> text={task}", timeout=TIMEOUT_MS)
    author.goto(f"{server.url}/tasks/{task}/")
    assert author.locator("h1 >> text=Vector sum").count() == 1
    author.goto(f"{server.url}/curate/audit/")
    for action in ("draft.create", "draft.approve", "task.publish"):
        assert author.locator(f"td >> text={action}").count() == 1, action
    assert author.console_errors == second.console_errors == []


def test_run_in_quarantine_leaves_the_leaderboard(
    open_page: Callable[..., Any], server: Any, in_thread: Any
) -> None:
    database = in_thread(sys.modules[__name__])
    database.arrange()
    database.rank("steady", "cheater")
    run = database.newest_run("cheater")
    page = open_page("/login/?next=/leaderboard/")
    page.fill("[name=username]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_selector("tbody tr:has-text('cheater')", timeout=TIMEOUT_MS)
    page.goto(f"{server.url}/curate/quarantine/")
    page.fill("[name=name]", run)
    page.fill("[name=reason]", "It read the clock.")
    page.click("button:has-text('Put into quarantine')")
    page.wait_for_selector("[role=status]:has-text('is in quarantine')", timeout=TIMEOUT_MS)
    page.goto(f"{server.url}/leaderboard/")
    assert page.locator("tbody tr:has-text('steady')").count() >= 1
    ranked = page.locator("tbody tr:has-text('cheater'):not(:has-text('It read the clock.'))")
    assert ranked.count() == 0, "it is listed with the reason alone"
    visitor = open_page(f"/runs/{run}/")
    assert visitor.locator("text=It read the clock.").count() == 1

    page.goto(f"{server.url}/curate/quarantine/")
    page.click(f"tr:has-text('{run}') button:has-text('Release')")
    page.wait_for_selector("text=Nothing is in quarantine", timeout=TIMEOUT_MS)
    page.goto(f"{server.url}/leaderboard/")
    assert page.locator("tbody tr:has-text('cheater')").count() >= 1
    assert page.console_errors == visitor.console_errors == []
