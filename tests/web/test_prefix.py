"""Tests of the path below which an arena is served, and of what pages keep for everybody."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from arena.accounts.models import User
from arena.leaderboard.analysis import verdicts
from arena.leaderboard.ranking import results
from arena.pages.runs.runs import RunPaginator
from arena.runs import services
from arena.runs.models import Run
from arena.runs.trace.events import EventDraft
from tests.web.conftest import TIMEOUT_MS, Server, environment_of

ELSEWHERE = "https://other.example"
PREFIX = "/arenas/one"
PAGES = (
    "/", "/leaderboard/", "/leaderboard/?track=cpp-to-cpp", "/leaderboard/parts/categories/",
    "/leaderboard/parts/frontier/", "/leaderboard/parts/generalization/", "/agents/", "/tasks/",
    "/agents/tuner/", "/analysis/", "/production/", "/runs/", "/runs/?agent=tuner", "/hardware/",
    "/tasks/rms_norm/cpp-to-cpp/", "/methodology/", "/experiments/", "/compare/", "/kernels/",
    "/login/", "/signup/", "/api/v1/docs", "/no/such/page/",
)  # fmt: skip
ADDRESS = re.compile(r"""(?:href|src|action|data-[a-z-]+|content)="((?:/|https?:|&#x2F;)[^"]*)\"""")

pytestmark = pytest.mark.django_db(transaction=True)


def ask(path: str, root: str = "", *headers: tuple[bytes, bytes]) -> tuple[int, str]:
    """Request a page of the application as its server does; return status and body."""
    from arena.asgi import application

    name, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "path": unquote(name),
        "raw_path": name.encode(), "root_path": root, "scheme": "http",
        "query_string": query.encode(), "client": ["127.0.0.1", 50_000],
        "server": ["127.0.0.1", 8000],
        "headers": list(headers) or [(b"host", b"localhost:8000")],
    }  # fmt: skip

    async def request() -> tuple[int, bytes]:
        talk = ApplicationCommunicator(application, scope)
        await talk.send_input({"type": "http.request", "body": b""})
        start = await talk.receive_output(timeout=60)
        body, more = b"", True
        while more:
            part = await talk.receive_output(timeout=60)
            body, more = body + part["body"], part.get("more_body", False)
        await talk.wait(timeout=60)
        return start["status"], body

    status, body = async_to_sync(request)()
    return status, body.decode()


def forget() -> None:
    results.forget()
    verdicts.forget()


def steady(page: str) -> str:
    """Return a page without the texts of its times, which pass, and without its CSRF tokens."""
    page = re.sub(r"(<(time|span data-clock)[^>]*>)[^<]*", r"\1", page)
    return re.sub(r'(csrf(?:-token=|middlewaretoken" value=)")[^"]*', r"\1", page)


def session_of(user: User) -> bytes:
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies['sessionid'].value}".encode()


@pytest.mark.parametrize("root", [ELSEWHERE, "//other.example", "/arena", "/"])
def test_root_path_of_a_client_changes_no_page_of_another(world, root):
    for path in PAGES:
        forget()
        expected = ask(path)
        forget()
        status, page = ask(path, root)
        assert status == (expected[0] if root == "/" else 400)
        assert "other.example" not in page
        again = ask(path)
        assert (again[0], steady(again[1])) == (expected[0], steady(expected[1])), path


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_headers_and_users_change_no_page_of_another(world, request, who):
    user = request.getfixturevalue(who)
    private = world.start("rms_norm/cpp-to-cpp", "tuner")
    type(private).objects.filter(pk=private.pk).update(owner=user, visibility="owner")
    ends = [
        (b"host", b"127.0.0.1:9"), (b"cookie", session_of(user) + b"; theme=other.example"),
        (b"accept-language", b"ar"), (b"x-requested-with", b"fragment"),
        (b"x-forwarded-host", b"other.example"), (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-prefix", b"/other.example"), (b"x-script-name", b"/other.example"),
        (b"script-name", b"/other.example"), (b"forwarded", b"host=other.example;proto=https"),
        (b"referer", b"https://other.example/"), (b"user-agent", b"other.example"),
    ]  # fmt: skip
    for path in PAGES:
        forget()
        expected = ask(path)
        forget()
        ask(path, "", *ends)
        again = ask(path)
        assert (again[0], steady(again[1])) == (expected[0], steady(expected[1])), path
        assert private.pk not in again[1]


def test_number_of_runs_is_kept_by_its_values_too(world, monkeypatch):
    monkeypatch.setattr("arena.pages.runs.runs.COUNTED_EACH_TIME", 0)
    cache.clear()
    between = ' AND "runs_run"."visibility" = '
    run = world.start("rms_norm/cpp-to-cpp", "tuner")
    Run.objects.filter(pk=run.pk).update(label=f"a{between}b")
    some = Run.objects.filter(label=f"a{between}b").filter(visibility="public")
    none = Run.objects.filter(label="a").filter(visibility=f"b{between}public")
    assert str(some.query) == str(none.query)
    assert RunPaginator(some, 10).count == 1
    assert RunPaginator(none, 10).count == 0
    cache.clear()


def test_server_refuses_the_header_of_a_root_path(server, served_world):
    request = urllib.request.Request(f"{server.url}/leaderboard/?track=cpp-to-cpp")
    request.add_header("Daphne-Root-Path", ELSEWHERE)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 400 and b"ARENA_PREFIX" in refused.value.read()
    with urllib.request.urlopen(f"{server.url}/leaderboard/?track=cpp-to-cpp", timeout=60) as page:
        assert b"other.example" not in page.read()
    address, more = server.url.replace("http", "ws") + "/ws/board/", {"Daphne-Root-Path": "/x"}
    with pytest.raises(InvalidStatus), connect(address, origin=server.url, additional_headers=more):
        pass
    with connect(address, origin=server.url):
        pass


@pytest.fixture(scope="module")
def below(
    django_db_setup: None, valkey: str, tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> Iterator[Server]:
    """Start a server whose pages are below a path."""
    folder = tmp_path_factory.mktemp("below")
    environment = environment_of(folder, valkey, repository) | {"ARENA_PREFIX": PREFIX}
    running = Server(environment, folder / "daphne.log", PREFIX)
    running.start()
    yield running
    running.kill()


def get(url: str, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_pages_below_a_prefix_name_only_addresses_below_it(below, served_world):
    found: set[str] = set()
    for path in PAGES:
        status, body = get(below.url + PREFIX + path)
        assert status == (404 if "no/such" in path else 200), path
        page = body.decode()
        addresses = {each.removeprefix(below.url) for each in ADDRESS.findall(page)}
        outside = {each for each in addresses if not each.startswith(f"{PREFIX}/")}
        assert not {each for each in outside if not each.startswith("https://")}, path
        found |= {each for each in addresses if f"{PREFIX}/static/" in each}
    assert len(found) > 5
    for each in found:
        assert get(below.url + each)[0] == 200, each


def test_api_below_a_prefix_describes_itself_and_refuses_as_json(below, served_world):
    status, body = get(f"{below.url}{PREFIX}/api/v1/openapi.json")
    assert status == 200
    assert all(path.startswith(f"{PREFIX}/api/v1/") for path in json.loads(body)["paths"])
    status, body = get(f"{below.url}{PREFIX}/api/v1/none")
    error = json.loads(body)["error"]
    assert status == 404 and error["hint"] == f"See {PREFIX}/api/v1/docs."


def test_paths_outside_the_prefix_are_not_found(below, served_world):
    for path in (
        "/",
        "/leaderboard/",
        "/static/css/base.css",
        settings.STATIC_URL + "css/base.css",
        f"{PREFIX}x/",
        "/ws/board/",
    ):
        assert get(below.url + path)[0] == 404, path
    address = below.url.replace("http", "ws")
    with connect(f"{address}{PREFIX}/ws/board/", origin=below.url):
        pass


def test_proxy_that_cuts_the_prefix_says_so_by_header(below, served_world):
    header = {"Daphne-Root-Path": PREFIX}
    whole = get(f"{below.url}{PREFIX}/methodology/")
    assert get(f"{below.url}/methodology/", **header) == whole
    assert get(f"{below.url}{PREFIX}/methodology/", **header) == whole
    assert get(f"{below.url}/methodology/", **{"Daphne-Root-Path": "/other"})[0] == 400


def test_session_below_a_prefix_is_sent_to_no_other_path(below, in_thread, served_world):
    status, body = get(f"{below.url}{PREFIX}/account/")
    assert status == 200 and b"<h1>Log in" in body
    request = urllib.request.Request(f"{below.url}{PREFIX}/signup/")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert f"Path={PREFIX}/" in answer.headers["Set-Cookie"]


@pytest.mark.browser
def test_live_run_below_a_prefix_is_followed(browser, below, served_world, in_thread):
    run = served_world.start("rms_norm/cpp-to-cpp", "tuner")
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda line: line.type == "error" and errors.append(line.text))
    page.goto(f"{below.url}{PREFIX}/runs/{run.pk}/")
    page.wait_for_selector('[data-connection][data-state="live"]', timeout=TIMEOUT_MS)
    in_thread(services).record(run.pk, [EventDraft("log", {"text": "below"})], producer="test")
    page.wait_for_selector('.event:has-text("below")', timeout=TIMEOUT_MS)
    assert errors == []
    links: Any = page.eval_on_selector_all("a[href^='/']", "rows => rows.map(r => r.pathname)")
    assert all(link.startswith(f"{PREFIX}/") for link in links)
    context.close()


@pytest.mark.parametrize("prefix", ["https://a.example", "/a b", "/../a", "/a?b", "a//b"])
def test_prefix_that_is_no_path_is_refused_at_the_start(repository, tmp_path, prefix):
    done = subprocess.run(
        [sys.executable, "-c", "import arena.settings"],
        cwd=repository,
        env=os.environ | {"ARENA_PREFIX": prefix, "ARENA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "write a path, such as /arena" in done.stderr
