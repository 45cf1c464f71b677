"""Tests of the feed of records, the citation of a board and the badge of an agent."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from arena.catalog.models import Agent, Hardware
from arena.pages.charts.cards import Card
from tests.arena.factories import hide
from tests.web.world import DEVICE, OTHER

pytestmark = pytest.mark.django_db
TASK = "rms_norm/cpp-to-cpp"
ATOM = "{http://www.w3.org/2005/Atom}"


def parsed(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)  # noqa: S314  # our own answer


def entries(client, query: str = "") -> list[ElementTree.Element]:
    response = client.get(f"/records.atom{query}")
    assert response.headers["Content-Type"].startswith("application/atom+xml")
    return parsed(response.content).findall(f"{ATOM}entry")


def test_feed_has_each_record_newest_first_with_a_link_to_its_run(client, world):
    first = world.passed(TASK, "scripted", 1.5, rounds=1)
    second = world.passed(TASK, "tuner", 2.1, rounds=1)
    newest, oldest = entries(client)
    assert newest.find(f"{ATOM}link").get("href") == f"http://testserver/runs/{second.pk}/"
    assert f"{TASK} on {DEVICE['name']}: 1.78× by Tuner" in newest.find(f"{ATOM}title").text
    assert "the baseline" in oldest.find(f"{ATOM}summary").text
    assert first.pk in oldest.find(f"{ATOM}id").text


def test_feed_is_narrowed_by_device(client, world):
    world.passed(TASK, "tuner", 2.1, rounds=1)
    assert entries(client, f"?hardware={OTHER['slug']}") == []
    assert len(entries(client, f"?hardware={DEVICE['slug']}")) == 1


def test_feed_has_no_record_of_a_run_that_is_hidden(client, world):
    hide(world.passed(TASK, "tuner", 2.1, rounds=1))
    assert entries(client) == []


def test_citation_keeps_the_day_and_the_judge_in_its_address(client, world):
    world.passed(TASK, "tuner", 2.1, rounds=1)
    text = client.get(f"/leaderboard.bib?hardware={DEVICE['slug']}&until=2030-01-02").content
    found = text.decode()
    assert found.startswith(f"@misc{{kernel-arena-{DEVICE['slug']}-2030-01-02,")
    address = re.search(r"\\url\{http://testserver(.*?)\}", found)[1]
    assert "until=2030-01-02" in address and "judge=1" in address
    assert client.get(address).status_code == 200
    assert found.count("{") == found.count("}")
    page = client.get("/leaderboard/").content.decode()
    assert 'href="/leaderboard.bib' in page and 'href="/records.atom' in page


def test_citation_escapes_what_latex_would_obey(client, world):
    world.passed(TASK, "tuner", 2.1, rounds=1)
    device = Hardware.objects.get(slug=DEVICE["slug"])
    device.name = r"\input{x} & 100% of _it"
    device.save()
    found = client.get("/leaderboard.bib").content.decode()
    escaped = r"\textbackslash{}input\{x\} \& 100\% of \_it"
    assert f"Kernel Arena leaderboard: {escaped}, " in found


def test_badge_shows_the_rank_of_a_public_agent_to_other_sites(client, world):
    world.passed(TASK, "tuner", 2.1, rounds=1)
    Agent.objects.filter(slug="tuner").update(title='"><script>alert(1)</script>')
    response = client.get(f"/agents/tuner/badge.svg?hardware={DEVICE['slug']}")
    assert response.headers["Content-Type"] == "image/svg+xml"
    assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    picture = parsed(response.content)
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == DEVICE["name"] and texts[1].startswith(("rank ", "provisional, "))
    assert not list(picture.iter("{http://www.w3.org/2000/svg}script"))
    assert "not tried" in client.get("/agents/scripted/badge.svg").content.decode()
    Agent.objects.filter(slug="scripted").update(
        quarantined_at="2026-01-01T00:00Z", quarantine_reason="A test."
    )
    assert client.get("/agents/scripted/badge.svg").status_code == 404


@pytest.mark.parametrize(
    "page", ["/", "/leaderboard/?task_set=all", f"/tasks/{TASK}/", "run", "round"]
)
def test_shared_page_has_absolute_addresses_and_a_picture(client, world, page):
    run = world.passed(TASK, "tuner", 2.1, rounds=2)
    address = {"run": f"/runs/{run.pk}/", "round": f"/runs/{run.pk}/rounds/1/"}.get(page, page)
    content = client.get(address).content.decode()
    found = dict(re.findall(r'<meta property="(og:[\w:]+)" content="([^"]*)">', content))
    assert found["og:title"] and found["og:description"].endswith(".")
    assert found["og:url"] == f"http://testserver{address}"
    image = found["og:image"].replace("&amp;", "&")
    assert image.startswith("http://testserver/") and image.endswith("chart=card.png")
    response = client.get(image.removeprefix("http://testserver"))
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    size = [int.from_bytes(response.content[at : at + 4]) for at in (16, 20)]
    assert size == [int(found["og:image:width"]), int(found["og:image:height"])]
    drawn = parsed(client.get(image.removeprefix("http://testserver")[:-3] + "svg").content)
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert found["og:title"].split(":")[0][:20] in " ".join(filter(None, texts))
    assert len(texts) > 6, "the texts of the card and of its chart"


def test_picture_of_a_run_that_is_hidden_is_not_found(client, world):
    run = world.passed(TASK, "tuner", 2.1, rounds=1)
    hide(run)
    assert client.get(f"/runs/{run.pk}/?chart=card.png").status_code == 404


def test_embedded_board_can_be_framed_by_any_site_and_runs_nothing(client, world):
    world.passed(TASK, "tuner", 2.1, rounds=1)
    response = client.get(f"/leaderboard/embed/?task_set=all&hardware={DEVICE['slug']}")
    assert "X-Frame-Options" not in response.headers
    policy = response.headers["Content-Security-Policy"]
    assert "frame-ancestors" not in policy and "script-src" not in policy
    page = response.content.decode()
    assert "/agents/tuner/" in page and "<script" not in page and "csrf" not in page
    assert f'href="/leaderboard/?task_set=all&amp;hardware={DEVICE["slug"]}"' in page
    board = client.get("/leaderboard/")
    assert board.headers["X-Frame-Options"] == "DENY"
    assert 'href="/leaderboard/embed/' in board.content.decode()


def test_picture_of_a_page_with_a_long_title_has_its_beginning():
    drawn = parsed(Card("operator_with_a_name_of_many_words/torch-to-torch", "").drawing().svg)
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "operator_with_a_name_of_many_words/torc…" in texts
