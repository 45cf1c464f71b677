"""axe-core opens every page of the permission matrix, in the light and the dark theme.

The limit is an impact of "serious": https://github.com/dequelabs/axe-core/blob/develop/doc/API.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.urls import reverse

from arena.catalog.models import Worker
from arena.curation import quarantine, rejudging
from arena.curation.models import CheckStep, Rejudging
from arena.curation.rejudging_filters import Filters
from arena.leaderboard.analysis import background
from arena.pages.leaderboard.statistics import RETRY_SECONDS
from evaluation import JUDGE_VERSION
from tests.arena.curation.conftest import admission
from tests.arena.factories import finished, judge, judged_run, report
from tests.arena.production import performance, production_run
from tests.waiting import until
from tests.web.conftest import DESK, TIMEOUT_MS
from tests.web.test_permissions import ACTORS, PAGES, world

__all__ = ["world"]
AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
PASSWORD = "of-the-staff"
SERIOUS = ("serious", "critical")
OF_WHOLE_PAGES = ("document-title", "html-has-lang")
"""Rules that a fragment cannot meet, because a page inserts it into itself."""
OF_SWAGGER_UI = "nested-interactive"
"""Rule that Swagger UI breaks by buttons within the head of an operation."""
RUN = """
async ([rules, serious]) => {
  const found = await axe.run(document, rules ? { runOnly: rules } : {});
  return found.violations.filter((each) => serious.includes(each.impact)).map((each) => ({
    rule: each.id,
    nodes: each.nodes.slice(0, 5).map((node) => [node.target.join(" "), node.failureSummary]),
  }));
}
"""
FILES = (
    "leaderboard-csv", "claims-csv", "leaderboard-bib", "records-feed", "agent-badge", "run-export",
)  # fmt: skip
"""Addresses of files, which a browser downloads, or shows without a page."""
MORE = (
    "/leaderboard/?task=relu", "/curate/rejudge/?task=", "/submit/?task=relu/cpp-to-cpp",
    "/no/such/page/", "/leaderboard/?suite=production", "/tasks/llama_rms_norm/production/",
    "/runs/{production}/", "/runs/{production}/rounds/1/",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def filled(world: Any, start: Any) -> Any:
    """Add to the world of the matrix what fills the lists and tables of its pages."""
    staff = world.users["staff"]
    public = [finished(start(repeat=repeat), unseen=0.9 + repeat) for repeat in range(4)]
    for agent, speedup in (("scripted", 1.5), ("climber", 2.5), ("wrong", None)):
        judged_run(agent, speedup=speedup, hardware=public[0].hardware)
    quarantine.hold(staff, "run", public[0].pk, "It read the clock.")
    Worker.objects.create(
        name="w", hardware=public[0].hardware, queues=[public[0].hardware.queue, "build"], pid=1
    )
    Rejudging.objects.all().delete()
    made = rejudging.start(staff, Filters(agent="tuner"), "The judge changed.", 5)
    new = made.items.exclude(replacement=None).first().replacement
    judge(new, report(judge_version=JUDGE_VERSION))
    rejudging.advance()
    check = world.values["check"]
    attempt = {
        "type": "attempt", "task": "vector_sum/cpp-to-cpp", "name": "no_scale", "role": "mutant",
        "note": "n", "verdict": "passed", "reason": "", "message": "It passed.",
        "as_expected": False, "seconds": 1.0,
    }  # fmt: skip
    end = admission("vector_sum/cpp-to-cpp", "0" * 64, admitted=False)
    for number, body in enumerate((attempt, end), start=1):
        CheckStep.objects.create(check_of_id=check, number=number, body=body)
    for by, deployed in (("tuner", 1.2), ("scripted", 0.7)):
        detail = performance(4.0, deployed, drop="" if deployed > 1 else "graph_break")
        world.values["production"] = production_run(
            by, "llama_rms_norm", detail, hardware=public[0].hardware
        ).pk
    world.values["rejudging"] = made.pk
    return world


def addresses(values: dict[str, Any], actor: str) -> Iterator[str]:
    """Yield the addresses that answer this kind of user with a page."""
    for name, rows in PAGES.items():
        if name in FILES:
            continue
        for method, path, statuses in rows:
            if method == "GET" and statuses.split()[ACTORS.index(actor)] == "200":
                yield path.format(**values) if path else reverse(name)


def log_in(page: Any, user: Any) -> None:
    """Log in by the form; the server has its own secret key, and knows no quick hash."""
    user.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt-of-the-test")
    user.save(update_fields=["password"])
    page.goto("/login/?next=/account/")
    page.fill("[name=username]", user.get_username())
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url("**/account/")


def problems_of(
    page: Any, address: str, change: str = "", ignored: Sequence[str] = ()
) -> list[str]:
    """Open an address, apply a change by JavaScript, and return what axe finds."""
    found = []
    page.emulate_media(color_scheme="light")
    answer = page.goto(address, wait_until="load")
    whole = "<!doctype html>" in answer.text()
    assert page.url.endswith(address), f"{address} led to {page.url}"
    if "text/html" not in page.evaluate("document.contentType"):
        return []
    if change:
        page.evaluate(change)
    page.evaluate(AXE.read_text())
    for theme, rules in (("light", None), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=theme)
        for each in page.evaluate(RUN, [rules, SERIOUS]):
            if each["rule"] not in (ignored if whole else OF_WHOLE_PAGES):
                nodes = json.dumps(each["nodes"], indent=1)
                found.append(f"{address} {theme} {each['rule']}: {nodes}")
    return found


def wait_for_statistics(page: Any) -> None:
    """Open the statistics of the analysis until a process has computed them."""

    def are_there() -> bool:
        page.wait_for_timeout(1000 * RETRY_SECONDS)  # waits: the pace of a page; more takes longer
        return "Computing" not in page.goto("/analysis/statistics/").text()

    until(are_there, "statistics", background.MAX_SECONDS)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("document.querySelector('main').append(document.createElement('input'))", "light label"),
        ("document.querySelector('h1').style.color = '#fff'", "light color-contrast"),
        ("document.querySelector('h1').style.color = '#444'", "dark color-contrast"),
    ],
)
def test_violation_that_is_put_into_a_page_is_found(
    browser: Any, server: Any, change: str, expected: str
) -> None:
    page = browser.new_page(viewport=DESK, base_url=server.url)
    found = problems_of(page, "/methodology/", change)
    page.close()
    assert [each for each in found if expected in each], found


def test_no_page_has_a_serious_violation(browser: Any, server: Any, filled: Any) -> None:
    context = browser.new_context(viewport=DESK, base_url=server.url, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    more = (path.format(**filled.values) for path in MORE)
    staff = {*addresses(filled.values, "staff"), *more}
    others = sorted({*addresses(filled.values, "anonymous")} - staff)
    problems = [problem for address in others for problem in problems_of(page, address)]
    assert others, "no page is for visitors alone"
    log_in(page, filled.users["staff"])
    wait_for_statistics(page)
    for address in sorted(staff):
        problems += problems_of(page, address)
    context.close()
    assert not problems, "\n".join(problems)


def test_no_page_of_the_admin_or_of_the_documentation_has_a_serious_violation(
    browser: Any, server: Any, filled: Any
) -> None:
    context = browser.new_context(viewport=DESK, base_url=server.url, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    filled.users["staff"].is_superuser = True
    log_in(page, filled.users["staff"])
    filled.users["staff"].save()
    problems = problems_of(page, reverse("admin:index"))
    problems += problems_of(page, "/api/v1/docs", ignored=(OF_SWAGGER_UI,))
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        problems += problems_of(page, reverse(f"{name}_changelist"))
        if row := model.objects.first():
            problems += problems_of(page, reverse(f"{name}_change", args=[row.pk]))
    context.close()
    assert not problems, "\n".join(problems)
