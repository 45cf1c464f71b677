"""Pages of the documents: each opens, and no link of one leads astray."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from arena.pages.documents import listed

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


def test_robots_txt_disallows_private_pages(client):
    lines = client.get("/robots.txt").content.decode().splitlines()
    assert lines[0] == "User-agent: *" and "Disallow: /curate/" in lines
    assert not [line for line in lines if "leaderboard" in line]
