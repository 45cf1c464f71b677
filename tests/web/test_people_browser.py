"""Accounts and submissions in a real browser, by keyboard alone and on a phone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import PHONE, TIMEOUT_MS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


PATHS = ("/submit/", "/kernels/", "/account/", "/account/password/", "/agents/")


@pytest.fixture
def page(open_page: Any, served_world: Any) -> Any:
    """Return a page on a phone whose user signed up by keyboard."""
    page = open_page("/signup/", PHONE)
    page.focus("[name=username]")
    for number, text in enumerate(("alice", "wonderland-7", "wonderland-7")):
        if number:
            page.keyboard.press("Tab")
        page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_selector(".menu summary", timeout=TIMEOUT_MS)
    return page


def test_account_menu_opens_and_closes_by_keyboard(page):
    page.focus(".menu summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Account and tokens"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert page.locator(".menu ul").is_hidden()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/account/", timeout=TIMEOUT_MS)
    page.focus("[name=name]")
    page.keyboard.type("laptop")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-secret]", timeout=TIMEOUT_MS)
    page.wait_for_function(
        "() => document.querySelector('[data-secret]').getBoundingClientRect().top < innerHeight"
    )
    assert page.eval_on_selector("[data-secret]", "code => code.getBoundingClientRect().top") > 0
    assert page.console_errors == []


def test_task_that_is_to_run_again_is_in_view_of_its_list(page, server, served_world):
    page.goto(f"{server.url}/runs/start/?task=swiglu/cpp-to-cpp&agent=tuner")
    [chosen, tasks] = (
        page.locator(part).bounding_box() for part in ("input[name=task]:checked", ".task-picks")
    )
    assert page.locator(".task-picks").evaluate("list => list.scrollHeight > list.clientHeight")
    assert tasks["y"] < chosen["y"] < tasks["y"] + tasks["height"]


def test_pages_of_people_fit_a_phone_and_label_every_field(page, server):
    for path in (
        "/submit/",
        "/kernels/",
        "/account/",
        "/account/password/",
        "/signup/",
        "/agents/",
    ):
        page.goto(server.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], path
        unnamed = page.eval_on_selector_all(
            "main input:not([type=hidden]), main select, main textarea",
            "fields => fields.filter(field => !field.labels?.length && !field.ariaLabel).length",
        )
        assert unnamed == 0, path
    page.goto(f"{server.url}/submit/")
    assert page.is_visible("[name=source]")
    assert page.console_errors == []
