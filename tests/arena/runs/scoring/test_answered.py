"""Tests of runs that another model answered than the one that was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arena.catalog.models import EXTERNAL, Agent
from arena.leaderboard.ranking.boards import Filters, board, options
from arena.runs import services
from arena.runs.models import Run
from arena.runs.scoring.answered import is_other
from arena.runs.trace.events import EventDraft
from arena.runs.transfer import results
from tests.arena.factories import LEASE, ask_for_verdict, hide, judge, report

pytestmark = pytest.mark.django_db
ASKED, ANSWERED = "qwen3-coder", "qwen2.5-coder"


@pytest.fixture
def agent(agent) -> Agent:
    """Return the agent `tuner` with a model."""
    Agent.objects.filter(pk=agent.pk).update(model=ASKED, provider="local")
    return Agent.objects.get(pk=agent.pk)


@pytest.fixture
def ended(start):
    """Return a function that judges a run of `tuner`, whose calls these models answered."""

    def end(*names: str, run: Run | None = None, **more: Any) -> Run:
        run = run or start(**more)
        services.claim_run(run.pk, LEASE)
        calls = [call(name, status=503 if name == "refused" else 200) for name in names]
        services.record(run.pk, calls, producer="gateway")
        judge(ask_for_verdict(run), report())
        return Run.objects.get(pk=run.pk)

    return end


def call(model: str, status: int = 200) -> EventDraft:
    usage = {"input_tokens": 10, "output_tokens": 5}
    asked = {"provider": "local", "wire": "chat", "requested_model": ASKED, "usage": usage}
    return EventDraft("model_call", {**asked, "model": model, "status": status})


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("qwen3-coder", "qwen2.5-coder"),
        ("qwen2.5-coder:7b", "qwen2.5-coder:0.5b"),
        ("gpt-x", "gpt-x-mini"),
        ("gpt-x", "gpt-x-mini-2025-01-01"),
        ("gpt-x-2025-01-01", "gpt-x-2025-06-01"),
        ("claude-opus-4", "claude-sonnet-4-20250514"),
        ("openai/gpt-x", "anthropic/claude-x"),
        ("local", "/models/Qwen2.5-Coder-0.5B-Q8_0.gguf"),
        ("gemini-2.5-pro", "gemini-2.5-flash"),
    ],
)
def test_another_model_differs_from_the_one_asked_for(asked, answered):
    assert is_other(asked, answered) and is_other(answered, asked)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("gpt-x", "gpt-x"),
        ("gpt-x", "gpt-x-2025-01-01"),
        ("gpt-x", "GPT-X-20250101"),
        ("gpt-x", "gpt-x-0613"),
        ("gemini-x-preview", "gemini-x-preview-05-20"),
        ("gemini-1.5-pro", "gemini-1.5-pro-002"),
        ("claude-x-latest", "claude-x-20250514"),
        ("claude-x@20250514", "claude-x"),
        ("openai/gpt-x", "gpt-x-2025-01-01"),
        ("openrouter/openai/gpt-x:free", "openai/gpt-x"),
        ("us.anthropic.claude-x-20250514-v1:0", "claude-x"),
        ("anthropic/claude-x-4.5", "claude-x-4-5-20250929"),
        ("qwen2.5-coder", "qwen2.5-coder:latest"),
        ("models/gemini-x", "gemini-x"),
    ],
)
def test_prefix_of_a_provider_and_one_date_make_no_other_model(asked, answered):
    assert not is_other(asked, answered) and not is_other(answered, asked)


def test_run_that_another_model_answered_is_shown_by_it_everywhere(client, ended, agent):
    run = ended(ANSWERED, ANSWERED)
    agent.refresh_from_db()
    assert (run.answered_by, agent.answered_by) == (ANSWERED, ANSWERED)
    notice = f"<strong>{ANSWERED} answered.</strong>"
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert notice in page and f"asked for <code>{ASKED}</code>" in page
    page = client.get("/agents/tuner/").content.decode()
    assert notice in page and f"answered by {ANSWERED}" in page
    for path in ("/leaderboard/", f"/leaderboard/?model={ANSWERED}", "/agents/"):
        page = client.get(path).content.decode()
        assert f">asked for {ASKED}</span>" in page and f">{ANSWERED}</span>" in page, path
    assert f"{ANSWERED}, asked for {ASKED} (1)" in client.get("/leaderboard/").content.decode()
    assert f"answered by {ANSWERED}" in client.get("/runs/").content.decode()


def test_filter_of_models_takes_what_answered(client, ended, agent):
    ended(ANSWERED)
    ended(ASKED, repeat=1)
    found = {each.value: (each.label, each.count) for each in options(Filters(), "model")}
    assert found == {
        ASKED: (ASKED, 1),
        ANSWERED: (f"{ANSWERED}, asked for {ASKED}", 1),
    }
    for model in (ASKED, ANSWERED):
        assert [row.total for row in board(Filters(model=model)).rows] == [1]
        assert Run.objects.all().matching(model=model).count() == 1
    agent.refresh_from_db()
    assert agent.answered_by == f"{ANSWERED}, {ASKED}"


def test_api_names_what_answered(client, ended):
    run = ended(ANSWERED)
    assert client.get(f"/api/v1/runs/{run.pk}").json()["answered_by"] == ANSWERED
    (row,) = client.get("/api/v1/leaderboard").json()["rows"]
    assert (row["model"], row["answered_by"]) == (ASKED, ANSWERED)
    (found,) = client.get("/api/v1/agents").json()
    assert (found["model"], found["answered_by"]) == (ASKED, ANSWERED)


def test_page_of_a_live_run_says_what_answers(client, start):
    run = start()
    services.claim_run(run.pk, LEASE)
    services.record(run.pk, [call(ANSWERED)], producer="gateway")
    assert (
        f"<strong>{ANSWERED} answered.</strong>" in client.get(f"/runs/{run.pk}/").content.decode()
    )


@pytest.mark.parametrize(
    "names", [(ASKED,), ("QWEN3-Coder-2025-01-01", f"alibaba/{ASKED}"), ("refused", ASKED), ()]
)
def test_run_that_the_model_itself_answered_has_no_notice(client, ended, agent, names):
    run = ended(*names)
    agent.refresh_from_db()
    assert (run.answered_by, agent.answered_by) == ("", "")
    for path in (f"/runs/{run.pk}/", "/agents/tuner/", "/leaderboard/"):
        page = client.get(path).content.decode()
        assert "answered.</strong>" not in page and "asked for" not in page


def test_agent_is_shown_by_the_runs_that_count(ended, agent):
    first = ended(ANSWERED)
    hide(first, "owner")
    agent.refresh_from_db()
    assert agent.answered_by == ""
    hide(first, "public")
    agent.refresh_from_db()
    assert agent.answered_by == ANSWERED


def test_agent_that_runs_elsewhere_is_shown_by_its_messages(ended, agent, start):
    run = start()
    Agent.objects.filter(pk=agent.pk).update(adapter=EXTERNAL)
    message = {"role": "assistant", "text": "Done.", "model": ANSWERED}
    services.record(run.pk, [EventDraft("message", message)], producer="external")
    assert ended(run=run).answered_by == ANSWERED


def test_message_of_an_agent_behind_the_gateway_names_no_model(ended, start):
    run = start()
    message = {"role": "assistant", "text": "Done.", "model": "forged"}
    services.record(run.pk, [EventDraft("message", message)], producer="agent")
    assert ended(ASKED, run=run).answered_by == ""


def test_import_of_a_run_names_what_answered(ended, agent, tmp_path):
    run = ended(ANSWERED)
    pk, line = run.pk, json.loads(results.line_of(run))
    assert "answered_by" not in line["run"]
    run.delete()
    Agent.objects.update(answered_by="")
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert services.import_results(path).loaded == [pk]
    agent.refresh_from_db()
    assert (Run.objects.get().answered_by, agent.answered_by) == (ANSWERED, ANSWERED)
