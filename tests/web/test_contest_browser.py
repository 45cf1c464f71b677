"""A contest from start to end in a real browser: made by staff, entered, late, judged, tied."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.utils import timezone

from arena.catalog.models import Task
from arena.contests.entries import request_finals
from arena.contests.models import Contest, Entry
from arena.runs.models import Run
from tests.web.conftest import TIMEOUT_MS
from tests.web.world import DEVICE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PASSWORD = "of-all-accounts"
ADDRESS = "/contests/relu-cup/"
TASK = "softmax/cpp-to-cpp"


class Arrangement:
    """Changes of the test to the database of the server."""

    def users(self) -> None:
        """Create one of staff and three users; the server knows no quick hash of passwords."""
        password = PBKDF2PasswordHasher().encode(PASSWORD, "salt-of-the-test")
        users = get_user_model().objects
        users.create(username="ada", password=password, is_staff=True, is_superuser=True)
        for name in ("grace", "edsger", "alan"):
            users.create(username=name, password=password)

    def task(self) -> str:
        return str(Task.objects.get(operator__slug="softmax", track="cpp-to-cpp"))

    def give(self, run: Run, owner: str) -> None:
        Run.objects.filter(pk=run.pk).update(owner=get_user_model().objects.get(username=owner))

    def end(self) -> int:
        """Let the deadline be now."""
        return Contest.objects.update(ends_at=timezone.now())

    def request_finals(self) -> int:
        return request_finals()

    def finals(self) -> list[Any]:
        """Return the requested verdicts, with what names their tasks."""
        final = "final__submission__run__task_version__task__operator"
        return [e.final for e in Entry.objects.exclude(final=None).select_related(final)]


@pytest.fixture
def signed_in(open_page: Any) -> Any:
    """Return a function that opens the contest's page as a user."""

    def signed_in_as(name: str, path: str = ADDRESS) -> Any:
        page = open_page(f"/login/?next={path}")
        page.fill("[name=username]", name)
        page.fill("[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "login" not in url, timeout=TIMEOUT_MS)
        return page

    return signed_in_as


def make(page: Any, task: str) -> None:
    """Make the contest in the admin."""
    now = timezone.now()
    page.locator("[name=title]").press_sequentially("ReLU cup")
    assert page.input_value("[name=slug]") == "relu-cup", "the form writes it"
    page.select_option("[name=task]", label=task)
    page.select_option("[name=hardware]", label=DEVICE["slug"])
    for name, at in (
        ("starts_at", now - timedelta(hours=1)),
        ("ends_at", now + timedelta(hours=1)),
    ):
        page.fill(f"[name={name}_0]", at.strftime("%Y-%m-%d"))
        page.fill(f"[name={name}_1]", at.strftime("%H:%M:%S"))
    page.click("[name=_save]")
    page.wait_for_selector(".messagelist .success", timeout=TIMEOUT_MS)


def rows(page: Any, section: str) -> list[list[str]]:
    """Return the texts of a table's cells."""
    found = page.eval_on_selector_all(
        f"section[aria-labelledby={section}] tbody tr",
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))",
    )
    return [list(row) for row in found]


def enter(page: Any, team: str) -> str:
    if page.locator("[name=team]").count():
        page.fill("[name=team]", team)
    page.click("form.stack button")
    page.wait_for_selector("p.message.success", timeout=TIMEOUT_MS)
    return str(page.inner_text("p.message.success"))


def test_contest_from_start_to_end_with_a_late_entry_and_a_tie(
    server: Any, signed_in: Any, open_page: Any, served_world: Any, in_thread: Any
) -> None:
    arranged = in_thread(Arrangement())
    arranged.users()
    make(signed_in("ada", "/admin/contests/contest/add/"), arranged.task())
    for owner, speedup in (("grace", 2.0), ("edsger", 2.6), ("alan", 4.0)):
        arranged.give(served_world.passed(TASK, "tuner", speedup), owner)

    grace, edsger = signed_in("grace"), signed_in("edsger")
    assert "It is open." in grace.inner_text("#state")
    assert "is entered for Compilers." in enter(grace, "Compilers")
    assert "is entered for edsger." in enter(edsger, "")
    team = "Compilers\nentered by grace"
    assert [row[:2] for row in rows(edsger, "standing")] == [["1", "edsger"], ["2", team]]
    assert [row[1] for row in rows(edsger, "changes")] == ["edsger", "Compilers"]

    assert arranged.end() == 1
    late = signed_in("alan")
    assert "It is late, and gets no rank." in enter(late, "")
    assert [row[0] for row in rows(late, "late")] == ["alan"]
    assert arranged.request_finals() == 2
    public = open_page(ADDRESS)
    assert "0 of 2 are there" in public.inner_text("#state").replace("\n", " ")

    first, second = arranged.finals()
    served_world.judge(first, "passed", 2.4, final=True)
    public.reload()
    assert [row[1] for row in rows(public, "standing")] == ["edsger", team], (
        "ranks are public until all are there"
    )
    served_world.judge(second, "passed", 2.4, final=True)
    public.reload()
    assert "It is over." in public.inner_text("#state")
    assert {(row[0], row[1]) for row in rows(public, "standing")} == {
        ("1 tied", team), ("1 tied", "edsger"),
    }  # fmt: skip
    assert [row[0] for row in rows(public, "late")] == ["alan"]
    public.goto(f"{server.url}/contests/")
    assert "over" in public.inner_text("#contests tbody")
    for page in (grace, edsger, late, public):
        assert page.console_errors == []
