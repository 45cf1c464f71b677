"""Tests of rendered pages: complete without scripts, silent about held-out cases."""

from __future__ import annotations

import re

import pytest
from django.db.models import Q
from django.templatetags.static import static
from django.utils import timezone

from arena.catalog.models import Hardware, Operator, Task, Worker
from arena.runs import services
from arena.runs.display.rounds import best_of, rounds_of
from arena.runs.models import Evaluation, Event, Experiment, Measurement, Run
from arena.runs.scoring.standings import rebuild
from arena.static_digest import static_digest
from evaluation.types import Interval
from tests.arena.factories import LEASE, ask_for_verdict, gate, judge, judged_run, measure, report
from tests.web.world import DEVICE, HIDDEN, SECRET

TASK = "rms_norm/cpp-to-cpp"
INLINE = re.compile(r"""<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*(\bsrc=|json))""")

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(world):
    """Return a run in every state that a page can show."""
    return {
        "passed": world.passed(TASK, "tuner", 2.1, rounds=3),
        "failed": world.failed("softmax/cpp-to-cpp", "tuner"),
        "rejected": world.rejected("matmul/cpp-to-cpp", "scripted"),
        "broken": world.broken("rope/cpp-to-cpp", "tuner"),
        "live": world.live("swiglu/cpp-to-cpp", "hill-climber", 1),
    }


def addresses(runs) -> list[str]:
    fixed = ["/", "/leaderboard/", "/tasks/", f"/tasks/{TASK}/", "/runs/", "/hardware/"]
    fixed += ["/analysis/", f"/compare/?run={runs['passed'].pk}&run={runs['failed'].pk}"]
    fixed += [
        "/methodology/",
        "/production/",
        "/production/llama/",
        "/agents/",
        "/agents/tuner/",
        "/experiments/",
        "/login/",
        "/leaderboard/?generalization=unseen",
    ]
    for run in runs.values():
        base = f"/runs/{run.pk}/"
        fixed += [base, f"{base}summary/", f"{base}events/?after=0", f"{base}events/?chunk=0"]
        fixed += [
            f"{base}?q=e",
            f"{base}?at=5",
            *(f"{base}rounds/{n + 1}/" for n in range(run.rounds)),
        ]
    return fixed


def test_pages_never_name_a_held_out_case(client, runs, alice, bob):
    assert Measurement.objects.filter(case__startswith=HIDDEN).exists(), "no held-out case"
    for who in (None, alice, bob):
        if who:
            client.force_login(who)
        for address in [*addresses(runs), *(["/runs/start/"] if who else [])]:
            page = client.get(address)
            text = page.content.decode()
            assert page.status_code == 200, address
            assert HIDDEN not in text, address
            assert not re.search(rf"\b{SECRET}\b", text), address


def test_pages_have_no_inline_script_or_style(client, runs):
    for address in addresses(runs):
        page = client.get(address)
        assert not INLINE.search(page.content.decode()), address
        assert "'unsafe" not in page.headers["Content-Security-Policy"]


def test_run_page_of_a_finished_run_is_complete(client, runs):
    run = runs["passed"]
    tabs = ("trace", "code", "results", "profile")
    pages = {tab: client.get(f"/runs/{run.pk}/?tab={tab}").content.decode() for tab in tabs}
    assert client.get(f"/runs/{run.pk}/").content.decode() == pages["results"]
    for tab, text in pages.items():
        assert f'data-tab="{tab}" aria-current="page"' in text
        assert len(text) < 150_000, tab
    page = "".join(pages.values())
    shown = [int(seq) for seq in re.findall(r'<article [^>]*id="e(\d+)"', page)]
    events = Event.objects.filter(run=run).order_by("seq")
    calls = events.filter(kind="tool_call").values("event_id")
    cases = events.filter(kind="metric", body__name="case_speedup")
    within = events.filter(
        Q(kind="tool_result", body__call__in=calls)
        | Q(kind="metric", body__name="speedup")
        | Q(kind="span_end", body__span_kind="turn")
        | Q(pk__in=cases.values("pk"))
    )
    assert within.exists()
    public = events.exclude(pk__in=within.values("pk"))
    assert shown == sorted(set(shown)), "a row twice, or out of order"
    assert shown == list(public.values_list("seq", flat=True))
    parts = [int(seq) for seq in re.findall(r'<tr id="e(\d+)"', page)]
    assert parts == list(cases.values_list("seq", flat=True)), "in the rows of their gates"
    for name in ("integrity", "compile", "correctness", "performance", "generalization"):
        assert name in page
    assert "WRONG_VALUES" in page and "12/12 correct" in page
    assert "round 3: lanes" in page, "the final code"
    for case in Measurement.objects.public().filter(evaluation__submission__run=run):
        assert case.case in page


def test_run_page_of_a_long_run_is_paginated(client, world):
    run = world.long(TASK, "scripted", 900)
    seen: set[int] = set()
    address = f"/runs/{run.pk}/"
    while address:
        page = client.get(address).content.decode()
        seen |= {int(seq) for seq in re.findall(r'id="e(\d+)"', page)}
        older = re.search(r'data-older href="([^"]+)"', page)
        address = older[1].partition("#")[0] if older else ""
    assert seen == set(range(1, run.last_seq + 1))


def test_run_page_of_a_failure_shows_its_class_and_reason(client, runs):
    failed = client.get(f"/runs/{runs['failed'].pk}/").content.decode()
    assert "BUILD_ERROR" in failed and "expected &#x27;;&#x27; before" in failed
    output = runs["failed"].events.filter(kind="compiler_output").order_by("-seq").first()
    link = f'/runs/{runs["failed"].pk}/?at={output.seq}#e{output.seq}">Full compiler output</a>'
    assert failed.count(link) == 1, "of the compiler that failed"
    of_round = client.get(runs["failed"].submissions.last().get_absolute_url())
    assert of_round.content.decode().count(link) == 1
    assert "Full compiler output" not in client.get(f"/runs/{runs['passed'].pk}/").content.decode()
    rejected = client.get(f"/runs/{runs['rejected'].pk}/").content.decode()
    assert "timer-call" in rejected and "clock_gettime" in rejected
    broken = client.get(f"/runs/{runs['broken'].pk}/").content.decode()
    assert (
        "Arena fault, not counted against the agent: The worker was killed while it judged."
        in broken
    )


def test_board_filters_come_from_the_query(client, runs):
    def rows(query: str) -> list[str]:
        page = client.get(f"/leaderboard/?{query}").content.decode()
        board = page.partition('id="board"')[2].partition("</section>")[0]
        return re.findall(r'href="/agents/([\w-]+)/"', board)

    assert rows("") == ["tuner", "scripted"]
    assert rows(f"hardware={DEVICE['slug']}") == ["tuner", "scripted"]
    assert rows("hardware=none-such") == []
    assert rows("category=Normalization") == ["tuner"]
    assert rows("track=torch-to-triton") == []
    page = client.get("/leaderboard/?category=Normalization&generalization=seen").content.decode()
    assert re.search(r'<option value="Normalization" selected>Normalization \(\d+\)<', page)
    assert re.search(r'aria-current="true">public<', page)


def test_run_list_filters_come_from_the_query(client, runs):
    def listed(query: str) -> set[str]:
        page = client.get(f"/runs/?{query}").content.decode()
        return set(re.findall(r'href="/runs/(\w{12})/"', page))

    assert listed("") == {run.pk for run in runs.values()}
    assert listed("status=broken") == {runs["broken"].pk}
    assert listed(f"task={TASK}") == {runs["passed"].pk}
    assert listed("agent=scripted") == {runs["rejected"].pk}


def test_long_responses_are_compressed(client, runs):
    for address in (f"/runs/{runs['passed'].pk}/", static("vendor/plotly/plotly-cartesian.min.js")):
        plain, packed = (
            client.get(address),
            client.get(address, headers={"Accept-Encoding": "gzip"}),
        )
        assert packed.headers["Content-Encoding"] == "gzip", address
        whole, less = (len(b"".join(answer)) for answer in (plain, packed))
        assert less < whole / 2, address


def test_invalid_query_values_are_ignored(client, runs):
    run = f"/runs/{runs['passed'].pk}/"
    for query in ("chunk=abc", "chunk=999999999", "at=-1", "q=%25_", "after=x", "chunk=²"):
        for address in (run, f"{run}events/", "/runs/", "/leaderboard/", "/tasks/"):
            assert client.get(f"{address}?{query}").status_code == 200, (address, query)


def test_missing_page_returns_404_with_a_message(client, db):
    for address in ("/runs/nosuchrun000/", "/agents/nobody/", "/tasks/no/such-track/", "/nowhere"):
        page = client.get(address)
        assert page.status_code == 404
        assert "Page not found" in page.content.decode()
    nav = page.content.decode().partition("</nav>")[0]
    assert "aria-current" not in nav, "an unknown address is in no part of the site"


def test_private_run_is_not_found_by_others(client, start, alice, charlie):
    run = start(owner=alice, visibility="owner")
    addresses = [f"/runs/{run.pk}/{part}" for part in ("", "summary/", "events/?after=0")]
    assert [client.get(a).status_code for a in addresses] == [404, 404, 404]
    client.force_login(charlie)
    assert [client.get(a).status_code for a in addresses] == [404, 404, 404]
    assert run.pk not in client.get("/runs/").content.decode()
    client.force_login(alice)
    assert [client.get(a).status_code for a in addresses] == [200, 200, 200]


def test_draft_task_and_names_of_hidden_runs_are_staff_only(client, world, alice, bob):
    run = world.passed("cross_entropy/cpp-to-cpp", "tuner", 2.1, rounds=1)
    draft = run.task_version.task
    hidden = Experiment.objects.create(slug="unheard-of", title="Unheard of")
    world.passed(TASK, "tuner", 2.1, rounds=1)
    Run.objects.exclude(pk=run.pk).update(experiment=hidden, visibility="staff")
    rebuild()
    Operator.objects.filter(pk=draft.operator_id).update(families=["spies"])
    draft.operator.tasks.update(status="draft")
    named = ("cross_entropy/", "spies", hidden.slug)
    addresses = ["/", "/runs/", "/tasks/", "/leaderboard/", "/analysis/", "/agents/tuner/"]
    addresses += ["/api/v1/tasks", "/api/v1/runs", "/api/v1/leaderboard/records"]
    own = [
        "/tasks/cross_entropy/cpp-to-cpp/",
        "/api/v1/tasks/cross_entropy/cpp-to-cpp",
        f"/runs/{run.pk}/",
    ]
    for who in (None, alice):
        if who:
            client.force_login(who)
        for address in addresses:
            text = client.get(address).content.decode()
            assert not [name for name in named if name in text], address
        assert [client.get(address).status_code for address in own] == [404, 404, 404]
    client.force_login(bob)
    assert [client.get(address).status_code for address in own] == [200, 200, 200]
    page = client.get("/runs/").content.decode()
    assert ">cross_entropy/</span>" in page and "Unheard of" in page


def test_draft_track_of_an_operator_is_not_listed(client, world, bob):
    Task.objects.filter(operator__slug="rms_norm").exclude(track="cpp-to-cpp").update(
        status="draft"
    )
    sibling = "/tasks/rms_norm/torch-to-triton/"
    assert sibling not in client.get(f"/tasks/{TASK}/").content.decode()
    client.force_login(bob)
    assert sibling in client.get(f"/tasks/{TASK}/").content.decode()


def test_waiting_run_shows_the_missing_worker_or_position(client, start):
    first, second = start(), start()

    def waits(run) -> str:
        page = client.get(f"/runs/{run.pk}/summary/").content.decode()
        return "".join(re.findall(r"data-waiting>(.*?)</p>", page))

    remedy = "(for admins: run <code>make arena</code>)"
    assert f"Waiting: no agent worker is online {remedy}." in waits(first)
    queues = ["agents", "build", first.hardware.queue]
    worker = Worker.objects.create(name="worker", queues=queues, pid=1)
    assert waits(second) == "Waiting for the next agent worker: 1 ahead."
    services.claim_run(second.pk, "lease")
    assert waits(second) == ""
    evaluation = ask_for_verdict(second)
    assert waits(second) == ""  # next in line
    services.claim_evaluation(evaluation.pk, "queued", "building", "lease")
    services.finish_build(evaluation.pk, "lease")
    assert waits(second) == ""  # the device is free
    services.claim_run(first.pk, "lease")
    measure(ask_for_verdict(first))
    assert waits(second) == "Waiting for Test CPU: 1 ahead." and waits(first) == ""
    worker.delete()
    assert "no worker for Test CPU is online" in waits(second)


def test_run_page_shows_that_a_measurement_of_another_pauses_the_agent(client, start):
    first, second = start(), start()
    services.claim_run(first.pk, "here:1:a")
    services.claim_run(second.pk, "here:1:b")
    evaluation = ask_for_verdict(second)
    services.claim_evaluation(evaluation.pk, "queued", "building", "here:2:c")
    services.finish_build(evaluation.pk, "here:2:c")
    told = "Its agent is paused while a kernel of another run is measured on the same cores."

    def are_paused() -> list[bool]:
        pages = [client.get(f"/runs/{run.pk}/summary/") for run in (first, second)]
        return [told in page.content.decode() for page in pages]

    assert are_paused() == [False, False]
    services.claim_evaluation(evaluation.pk, "built", "measuring", "elsewhere:1:d")
    assert are_paused() == [False, False]
    Evaluation.objects.filter(pk=evaluation.pk).update(lease="here:3:e")
    assert are_paused() == [True, False]


def test_round_keeps_its_speedup_beside_the_final_one(client, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    for speedup, low in ((2.4, 1.1), (2.0, 1.9)):
        evaluation = ask_for_verdict(run, "round")
        judge(evaluation, report(seen=Interval(speedup, low, 2.6)))
    judge(services.request_evaluation(evaluation.submission, "final"), report(speedup=1.7))

    rounds = rounds_of(run)
    assert [r.speedup for r in rounds] == [2.4, 2.0]
    assert [r.best for r in rounds] == [2.4, 2.0]  # one wide interval wins nothing
    chosen = best_of(rounds)
    assert (chosen.number, chosen.final.speedup) == (2, 1.7)
    assert rounds[0].final is None and chosen.evaluation == chosen.final
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Best 2.00×, in round 2 of 2" in page and "final verdict</span>" in page
    page = client.get(f"/runs/{run.pk}/rounds/2/").content.decode()
    assert re.search(r"2\.00×.*Final verdict.*1\.70×", page, re.DOTALL)


def test_home_shows_the_progress_of_active_runs(client, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    for speedup in (1.5, 1.2):
        judge(ask_for_verdict(run, "round"), report(speedup=speedup))
    page = client.get("/").content.decode()
    assert re.search(r"round <span[^>]*>2/12</span>, best <span[^>]*>1\.50×</span>", page)
    assert "data-clock data-since=" in page


def test_agents_are_listed_and_an_operator_redirects_to_a_task(client, runs):
    page = client.get("/agents/").content.decode()
    assert "/agents/tuner/" in page and "1.78×" in page and "no run yet" in page
    assert client.get("/tasks/rms_norm/").headers["Location"] == "/tasks/rms_norm/cpp-to-cpp/"
    assert client.get("/tasks/none/").status_code == 404


def test_record_links_to_its_code(client, runs, world):
    first = runs["passed"]
    second = world.passed(TASK, "scripted", 3.4, rounds=2)
    for address in ("/", f"/tasks/{TASK}/"):
        page = client.get(address).content.decode()
        for run in (first, second):
            code = f"/runs/{run.pk}/rounds/{run.rounds}/#whole"
            assert f'{code}">round {run.rounds}<' in page, address
        assert page.index(second.pk) < page.index(first.pk) and ">current record<" in page
    assert 'id="whole"' in client.get(f"/runs/{second.pk}/rounds/2/").content.decode()
    assert "Records" not in client.get("/tasks/softmax/cpp-to-cpp/").content.decode()


def test_run_lists_name_the_device(client, runs):
    for address in ("/", "/runs/", f"/tasks/{TASK}/", "/agents/tuner/"):
        page = client.get(address).content.decode()
        assert f'<span class="sub">{DEVICE["name"]}</span>' in page, address


def test_passed_round_shows_generalization_as_final_verdict_only(client, runs):
    run = f"/runs/{runs['passed'].pk}/rounds"
    assert "final verdict only" in client.get(f"{run}/1/").content.decode()
    final = client.get(f"{run}/3/").content.decode()
    assert "final verdict only" not in final and "not reached" not in final


def test_run_that_ended_without_a_submission_opens_at_its_trace(client, world):
    run = judged_run("tuner", rounds=0, hardware=Hardware.objects.first())
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert 'data-tab="trace" aria-current="page"' in page


def _states(page: str) -> dict[str, str]:
    """Return the states of the gates that are under way."""
    gate = r'<span class="name">(\w+)</span>\s*<span class="pill\s+plain">([a-z]+)</span>'
    return dict(re.findall(gate, page))


def test_final_verdict_in_progress_shows_its_own_gates(client, world):
    run = world.start(TASK, "tuner")
    submission = world.round(run, 1, "passed", 1.5)
    final = services.request_evaluation(submission, "final")
    page = client.get(f"/runs/{run.pk}/?tab=results").content.decode()
    assert "Final verdict on round 1, in progress" in page
    assert page.count("not reached") == 4 and ">queued</span>" in page
    assert services.claim_evaluation(final.pk, "queued", "building", LEASE)
    page = client.get(f"/runs/{run.pk}/?tab=results").content.decode()
    assert page.count("not reached") == 4 and _states(page) == {"integrity": "checking"}
    services.record_gate(final.pk, LEASE, gate("integrity"))
    page = client.get(f"/runs/{run.pk}/?tab=results").content.decode()
    assert page.count("not reached") == 3 and _states(page) == {"compile": "building"}
    services.record_gate(final.pk, LEASE, gate("compile"))
    services.finish_build(final.pk, LEASE)
    page = client.get(f"/runs/{run.pk}/?tab=results").content.decode()
    assert page.count("not reached") == 2 and _states(page) == {"correctness": "waiting"}
    Evaluation.objects.filter(pk=final.pk).update(status="broken", ended_at=timezone.now())
    page = client.get(f"/runs/{run.pk}/?tab=results").content.decode()
    assert "Newest verdict, round 1" in page and "not reached" not in page


def test_case_shows_its_latency_without_cuda_graph(client, runs):
    address = f"/runs/{runs['passed'].pk}/"
    shown = Measurement.objects.filter(evaluation__submission__run=runs["passed"], split="seen")
    for captured, eager, text in (
        (None, None, ""),
        (True, 7.25, "7.25\u202fµs without CUDA graph"),
        (False, None, "without CUDA graph: capture is not possible"),
    ):
        shown.update(captured=captured, eager_us=eager)
        page = client.get(address).content.decode()
        assert text in page and ("without CUDA graph" in page) == bool(text)


def test_case_shows_its_memory_beside_that_of_the_baseline(client, runs):
    address = f"/runs/{runs['passed'].pk}/"
    shown = Measurement.objects.filter(evaluation__submission__run=runs["passed"], split="seen")
    assert "256\u202fMiB" not in client.get(address).content.decode()

    shown.update(memory_bytes=256 << 20, baseline_memory_bytes=3 << 29)

    page = client.get(address).content.decode()
    assert "256\u202fMiB" in page and "baseline 1.50\u202fGiB" in page


def test_submitted_file_is_served_unchanged_with_linked_lines(client, runs):
    round_ = f"/runs/{runs['passed'].pk}/rounds/1/"
    page = client.get(round_).content.decode()
    address = re.search(r'href="([^"]+/files/[^"]+)"', page)[1]
    handed_in = client.get(address)
    assert handed_in.headers["Content-Type"] == "text/plain; charset=utf-8"
    first = runs["passed"].submissions.get(round=1)
    assert handed_in.content.decode() in first.files.values()
    assert re.search(r'id="rms_norm-cpp-L2" href="#rms_norm-cpp-L2"', page)
    assert client.get(f"{round_}files/none.cpp").status_code == 404


def test_run_list_filters_by_experiment(client, start):
    experiment = Experiment.objects.create(slug="pair", title="A pair", plan={"repeats": 1})
    inside, outside = start(experiment=experiment, label="pair"), start()
    page = client.get("/runs/?experiment=pair").content.decode()
    assert inside.pk in page and outside.pk not in page and "selected>A pair<" in page
    assert 'href="/experiments/pair/"' in client.get(f"/runs/{inside.pk}/").content.decode()


def test_cancel_by_another_user_is_refused(client, start, alice, charlie):
    run = start(owner=alice)
    client.force_login(charlie)
    answer = client.post(f"/runs/{run.pk}/cancel/", follow=True).content.decode()
    run.refresh_from_db()
    assert run.status == "queued" and "Only its owner or staff may cancel" in answer
    client.force_login(alice)
    client.post(f"/runs/{run.pk}/cancel/")
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_empty_arena_shows_what_to_do(client, db):
    for address in ("/", "/leaderboard/", "/tasks/", "/runs/", "/hardware/"):
        assert 'class="empty"' in client.get(address).content.decode(), address


def test_login_and_logout_return_to_the_site(client, alice):
    wrong = client.post("/login/", {"username": "alice", "password": "looking-glass"})
    assert "do not match" in wrong.content.decode()
    page = client.post("/login/", {"username": "alice", "password": "wonderland"}, follow=True)
    assert ">alice</summary>" in page.content.decode()
    page = client.post("/logout/", follow=True)
    assert page.redirect_chain[-1][0] == "/" and "Log in" in page.content.decode()


def test_methodology_leads_to_each_of_its_sections(client):
    page = client.get("/methodology/").content.decode()
    sections = re.findall(r'<h2 id="(\w+)"', page)
    assert re.findall(r'<li><a href="#(\w+)"', page) == sections and "claims" in sections


def test_favicon_redirects_to_the_icon(client):
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.url) == (302, static("icon.svg"))


def test_static_file_has_a_digest_in_its_address_and_is_kept_for_good(client, tmp_path):
    page = client.get("/methodology/").content.decode()
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) > 4
    for address in addresses:
        assert re.match(r"/static/[0-9a-f]{12}/", address)
        kept = client.get(address).headers["Cache-Control"]
        assert "immutable" in kept and int(re.search(r"max-age=(\d+)", kept)[1]) > 86_400 * 300
    old = re.sub(r"[0-9a-f]{12}", "0" * 12, addresses[0])
    assert client.get(old).status_code == 404
    (tmp_path / "a.js").write_text("a")
    before = static_digest(tmp_path)
    assert static_digest(tmp_path) == before != static_digest(tmp_path, ())
    (tmp_path / "a.js").write_text("b")
    assert static_digest(tmp_path) != before


def test_admin_page_of_a_run_links_to_its_page(admin_client, runs):
    run = runs["passed"]
    page = admin_client.get(f"/admin/runs/run/{run.pk}/change/").content.decode()
    link = re.search(r'href="([^"]+)" class="viewsitelink"', page)[1]
    assert link.endswith(f"/runs/{run.pk}/")
