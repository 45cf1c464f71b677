"""Tests of the trace as a file: JSON lines, Markdown, HTML and the open trajectory format."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from arena.errors import TooLarge
from arena.runs import services
from arena.runs.trace import exports
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db
EVIL = '```\n<script src="//x.example">1</script>\n![p](http://x.example/p.png)\n\x1b[31m# red'
USAGE = {"input_tokens": 900, "output_tokens": 100, "cached_tokens": 500}


@pytest.fixture
def run(start):
    """Return a run of two calls at once, an edit and a round that passed."""
    run = start()
    services.claim_run(run.pk, LEASE)
    drafts = [
        EventDraft("message", {"role": "user", "text": "Make it fast."}),
        EventDraft("model_call", {"provider": "p", "wire": "w", "usage": USAGE, "cost_usd": 0.25}),
        EventDraft(
            "message",
            {
                "role": "assistant",
                "model": "m-1",
                "text": "I read both.",
                "reasoning": "Two files.",
            },
        ),
        EventDraft("tool_call", {"tool": "read", "arguments": {"path": "a"}}, id="agent-a"),
        EventDraft("tool_call", {"tool": "read", "arguments": {"path": "b"}}, id="agent-b"),
        EventDraft("tool_result", {"call": "agent-b", "ok": True, "output": "text of b"}),
        EventDraft("tool_result", {"call": "agent-a", "ok": False, "error": "no a"}),
        EventDraft(
            "file_edit",
            {"path": "k.cpp", "operation": "modify", "diff": "@@ -1 +1 @@\n-int a;\n+int b;\n"},
        ),
    ]
    services.record(run.pk, drafts, producer="test")
    judge(ask_for_verdict(run, "round"), report())
    run.refresh_from_db()
    return run


@pytest.fixture
def hostile(start):
    run = start()
    drafts = [
        EventDraft("message", {"role": "assistant", "text": EVIL}),
        EventDraft("tool_call", {"tool": EVIL, "arguments": {"command": EVIL}}, id="agent-c"),
        EventDraft("tool_result", {"call": "agent-c", "ok": False, "output": EVIL}),
        EventDraft("file_edit", {"path": EVIL, "operation": "modify", "diff": f"+{EVIL}"}),
        EventDraft("log", {"text": EVIL, "level": "error"}),
    ]
    services.record(run.pk, drafts, producer="test")
    run.refresh_from_db()
    return run


class Tags(HTMLParser):
    """Collects the names of the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)


def test_json_lines_are_the_events_of_the_api(run):
    lines = exports.export(run, "jsonl").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, run.last_seq + 1))
    assert json.loads(lines[-1]) == run.events.get(seq=run.last_seq).envelope()


def test_trajectory_has_calls_with_results_in_the_step_of_their_message(run):
    whole = json.loads(exports.export(run, "atif.json"))
    assert whole["schema_version"] == "ATIF-v1.4" and whole["session_id"] == run.pk
    steps = whole["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    assert [step["source"] for step in steps] == ["user", "agent", "system"]
    agent = steps[1]
    assert agent["message"] == "I read both." and agent["reasoning_content"] == "Two files."
    assert [call["tool_call_id"] for call in agent["tool_calls"]] == ["agent-a", "agent-b"]
    results = {each["source_call_id"]: each for each in agent["observation"]["results"]}
    assert results["agent-a"]["content"] == "no a"
    assert results["agent-b"]["content"] == "text of b"
    assert agent["metrics"] == {
        "prompt_tokens": 900,
        "completion_tokens": 100,
        "cached_tokens": 500,
        "cost_usd": 0.25,
    }
    assert agent["extra"]["edits"][0]["path"] == "k.cpp"
    assert steps[2]["message"].startswith("Round 1: passed")
    assert whole["final_metrics"]["total_prompt_tokens"] == 900
    assert whole["final_metrics"]["total_cost_usd"] == 0.25


def test_documents_show_each_call_with_its_result_and_each_edit_with_its_verdict(run):
    for form in ("md", "html"):
        text = exports.export(run, form)
        for words in ("Make it fast.", "I read both.", "text of b", "no a", "+int b;"):
            assert words in text, (form, words)
        assert "led to round 1: 2.00×" in text, form


def test_html_of_a_hostile_trace_has_no_element_of_it(hostile):
    page = exports.export(hostile, "html")
    ours = {"html", "head", "meta", "title", "style", "body", "h1", "ul", "li", "article", "p"}
    assert Tags(page).names <= ours | {"pre", "span", "small", "h2"}
    assert "default-src 'none'" in page and "\x1b" not in page and "x.example" in page


def test_markdown_of_a_hostile_trace_loads_nothing(hostile):
    text = exports.export(hostile, "md")
    rendered = Tags(MarkdownIt("commonmark", {"html": True}).render(text)).names
    assert rendered <= {"h1", "h2", "ul", "li", "p", "pre", "code", "blockquote"}
    assert "\x1b" not in text and "x.example" in text


def test_export_of_too_many_events_names_the_client(run):
    run.last_seq = exports.MAX_EVENTS + 1
    with pytest.raises(TooLarge, match="10001 events") as refused:
        exports.export(run, "html")
    assert f"arena download {run.pk}" in refused.value.text


def test_download_of_a_run_is_a_file_with_its_name(client, run):
    for form, known in exports.FORMATS.items():
        response = client.get(f"/runs/{run.pk}/trace.{form}")
        assert response.headers["Content-Disposition"] == f'attachment; filename="{run.pk}.{form}"'
        assert response.headers["Content-Type"] == known.content_type
        assert response.content.decode() == exports.export(run, form)
    page = client.get(f"/runs/{run.pk}/?tab=trace").content.decode()
    assert all(f'href="/runs/{run.pk}/trace.{form}"' in page for form in exports.FORMATS)
