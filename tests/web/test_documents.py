"""Pages of the documents: each opens, and no link of one leads astray."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from arena.pages.documents import UNGROUPED, grouped, groups, listed
from tests.web.conftest import PHONE, TIMEOUT_MS

MAX_PHONE_PIXELS = 6000

pytestmark = pytest.mark.django_db


def test_each_document_is_a_page_with_links_that_open(client):
    index = client.get(reverse("documents")).content.decode()
    assert {"client", "curation", "glossary", "tasks"} <= set(listed())
    for name in listed():
        address = reverse("document", args=[name])
        assert f'href="{address}"' in index
        page = client.get(address).content.decode()
        article = page.partition("<article")[2].partition("</article>")[0]
        assert article.count("<h1") == 1 and " style=" not in article
        for target in re.findall(r'href="([^"]*)"', article):
            path, _, anchor = target.partition("#")
            assert path == "" or path.startswith(("/docs/", "http")), (name, target)
            if path.startswith("http") or not anchor:
                continue
            other = client.get(path).content.decode() if path else page
            assert f'id="{anchor}"' in other, (name, target)


def test_link_to_another_file_of_the_same_name_leads_to_no_document(client):
    page = client.get(reverse("document", args=["production"])).content.decode()
    article = page.partition("<article")[2]
    assert "benchmarks/results/production.md</a>" in article
    assert f'href="{reverse("document", args=["production"])}' not in article


def test_documents_are_listed_by_what_a_reader_wants(client):
    titles = [group.title for group in groups()]
    assert titles[:2] == ["Start here", "Use it"]
    index = client.get(reverse("documents")).content.decode()
    assert re.findall(r"<h2>(.*?)</h2>", index) == titles
    places = [index.index(f'href="{reverse("document", args=[name])}"') for name in listed()]
    assert places == sorted(places)


def test_document_that_no_group_names_is_listed_last_with_its_first_sentences(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(
        "# D\n\n## Start\n\n- [A](a.md): about `a`,\n  and more.\n"
        "- [Gone](gone.md): x\n\n## Empty\n"
    )
    (docs / "a.md").write_text("# The a\n\nFirst.\n")
    (docs / "new.md").write_text("# New\n\nIt is\nnew.\n\nMore.\n")
    found = [
        (group.title, [(each.title, each.line) for each in group.documents])
        for group in grouped(tmp_path)
    ]
    assert found == [
        ("Start", [("The a", "About a, and more.")]),
        (UNGROUPED, [("New", "It is new.")]),
    ]


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_long_document_on_a_phone_is_short_and_opens_what_a_link_names(open_page):
    page = open_page("/docs/threat-model/", PHONE)
    page.wait_for_function("() => !document.querySelector('details.fold[open]')")
    assert page.evaluate("document.documentElement.scrollHeight") < MAX_PHONE_PIXELS
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.goto(f"{page.url}#accepted-limits")
    page.wait_for_selector("details[open] >> text=Measured above that bound", timeout=TIMEOUT_MS)
    assert page.locator("details.fold[open]").count() == 1
    assert page.locator("details.fold:not([open])").count() > 5
    plain = open_page("/docs/threat-model/", java_script_enabled=False)
    assert plain.locator("text=Measured above that bound").is_visible()
    assert page.console_errors == []


def test_robots_txt_disallows_private_pages(client):
    lines = client.get("/robots.txt").content.decode().splitlines()
    assert lines[0] == "User-agent: *" and "Disallow: /curate/" in lines
    assert not [line for line in lines if "leaderboard" in line]
