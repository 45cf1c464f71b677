"""Samples, budgets and failures of the model loop, in runs with a scripted judge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest

from evaluation.sandbox.features import isolation_features
from tests.conftest import skip_or_fail
from tests.model_server import Fault, ModelServer, Script, Turn
from tests.runners.agents.real_arena import KEY, START
from tests.runners.house import House

WRITE = 'echo "speedup 1.4" > k.cpp'
BY_FOLDER = 'case $PWD in */1) echo "speedup 1.3" ;; *) echo "speedup 1.7" ;; esac > k.cpp'
"""Each sample writes a file of its own."""
SAMPLES = Script(
    (
        Turn("Wrong.", ("echo wrong > k.cpp; ./arena-check wrong",)),
        Turn("Right.", (BY_FOLDER,), calls=(("check", {"note": "right"}),)),
        Turn("More.", ("./arena-check more",), calls=(("profile", {}),)),
        Turn("Done."),
    )
)
UNASKED = Script((Turn("I write it.", (BY_FOLDER,)), Turn("Done.")))
ONE_ROUND = (Turn("A file.", (WRITE,)), Turn("Its verdict.", calls=(("check", {}),)))


def failing(*faults: Fault) -> Script:
    return Script((Turn("I begin.", ("true",)), Turn("It is.", (WRITE,), faults=faults)))


SCRIPTS = {
    "samples": SAMPLES,
    "unasked": UNASKED,
    "long": Script(ONE_ROUND + tuple(Turn("More.", ("true",)) for _ in range(20))),
    "cut-messages": failing(Fault("cut"), Fault("short")),
    "cut-chat-completions": failing(Fault("cut"), Fault("short")),
    "refused": failing(Fault("status", status=400, message="effort is not supported")),
    "overflow": failing(
        Fault("status", status=400, message="This model's maximum context length is 9 tokens")
    ),
    "words": Script((Turn("I would write a kernel."),)),
    "garbage": failing(Fault("garbage", times=math.inf)),
    "loud": Script((Turn("Loud.", ("head -c 2000000 /dev/zero | tr '\\0' x",)), *ONE_ROUND)),
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(SCRIPTS, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[House]:
    if not isolation_features().namespaces:
        skip_or_fail("network namespaces")
    house = House(tmp_path_factory.mktemp("loop"))
    (house.home / "providers.toml").write_text(
        '[scripted]\nwires = ["chat-completions", "messages"]\n'
        f'base_url = "{server.url}/v1"\nkey_variable = "TEST_PROVIDER_KEY"\n'
    )
    house.env["TEST_PROVIDER_KEY"] = KEY
    house.furnish()
    try:
        house.open()
        yield house
    finally:
        house.close()


def started(house: House, model: str, settings: Any = None, **budget: float) -> str:
    slug = f"loop-{next(_numbers)}"
    agent = {"slug": slug, "title": slug, "adapter": "model_loop", "settings": settings or {}}
    agent |= {"model": model, "provider": "scripted"}
    chosen = {"rounds": 6, "seconds": 300, **budget}
    program = START.format(agent=agent, task="k/cpp-to-cpp", slug=slug, budget=chosen)
    return house.python(program)


def texts(house: House, run: str) -> list[str]:
    return [event["body"]["text"] for event in house.events(run, "message")]


@pytest.mark.parametrize("parallel", [1, 3])
def test_samples_work_on_copies_and_the_best_is_kept(
    arena: House, server: ModelServer, parallel: int
) -> None:
    before = len(server.of("samples"))
    run = started(arena, "samples", {"samples": 3, "parallel": parallel}, rounds=6)
    row = arena.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.7), arena.logs()
    begun = [
        event for event in arena.events(run, "span_begin")
        if event["body"]["span_kind"] == "subagent"
    ]  # fmt: skip
    assert sorted(each["body"]["title"] for each in begun) == ["Sample 1", "Sample 2", "Sample 3"]
    ends = [e for e in arena.events(run, "span_end") if e["body"]["span_kind"] == "subagent"]
    assert sorted(each["body"]["message"] for each in ends) == ["1.300x", "1.700x", "1.700x"]
    turns = [
        event for event in arena.events(run, "span_begin") if event["body"]["span_kind"] == "turn"
    ]
    assert {turn["parent"] for turn in turns} == {each["span"] for each in begun}
    conversations = server.of("samples")[before:]
    assert len(conversations) == 3
    for each in conversations:
        outputs = [each.output(call) for call in each.calls]
        assert "wrong" in outputs[0].lower() and "has 1 of 2 rounds left" in outputs[0]
        assert "passed" in outputs[2] and "has 0 of 2 rounds left" in outputs[2]
        assert "All 2 rounds of this sample are spent." in outputs[3]
    assert len(arena.rows("SELECT * FROM runs_submission WHERE run_id = ?", run)) == 6
    assert "Sample 2 is kept." in texts(arena, run)[-1]


def test_sample_that_asked_for_no_verdict_gets_one(arena: House) -> None:
    run = started(arena, "unasked", {"samples": 2, "parallel": 2})
    row = arena.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.7), arena.logs()
    assert len(arena.events(run, "file_edit")) >= 2, "each sample has its own"
    assert "Sample 2 is kept." in texts(arena, run)[-1]


def test_spent_budget_of_turns_ends_the_run_in_order(arena: House) -> None:
    run = started(arena, "long", turns=4)
    row = arena.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.4), arena.logs()
    (limit,) = arena.events(run, "limit")
    assert limit["body"]["name"] == "turns"
    assert arena.events(run, "error") == []


def test_spent_turns_of_the_settings_end_the_loop(arena: House, server: ModelServer) -> None:
    before = len(server.of("long"))
    run = started(arena, "long", {"max_turns": 3})
    assert arena.ended(run, 60)["status"] == "passed"
    assert texts(arena, run)[-1] == "All 3 turns of this sample are used."
    (conversation,) = server.of("long")[before:]
    assert len(conversation.exchanges) == 3


@pytest.mark.parametrize("wire", ["messages", "chat-completions"])
def test_cut_answer_is_asked_for_again(arena: House, wire: str) -> None:
    run = started(arena, f"cut-{wire}", {"wire": wire})
    row = arena.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.4), (row["reason"], arena.logs())
    errors = [event["body"]["error"] for event in arena.events(run, "model_call")]
    assert sum(bool(error) for error in errors) == 2


def test_refused_request_is_the_reason_of_the_run(arena: House) -> None:
    row = arena.ended(started(arena, "refused"), 60)
    assert (row["status"], row["fault"]) == ("broken", "user"), row
    assert "The provider answered HTTP 400" in row["reason"]
    assert "effort is not supported" in row["reason"]
    assert "Change the agent's settings" in row["reason"]


def test_context_that_is_too_small_is_the_candidates_failure(arena: House) -> None:
    row = arena.ended(started(arena, "overflow"), 60)
    assert (row["status"], row["fault"]) == ("failed", "candidate"), row
    assert "longer than the context of the model" in row["reason"]


def test_model_that_calls_no_tool_is_told_what_to_do(arena: House) -> None:
    row = arena.ended(started(arena, "words"), 60)
    assert (row["status"], row["fault"]) == ("failed", "candidate"), row
    assert row["reason"].startswith("The model called no tool")
    assert "Nothing was handed in: k.cpp is as it was given." in row["reason"]


def test_unreadable_answers_are_the_providers_fault(arena: House) -> None:
    row = arena.ended(started(arena, "garbage"), 60)
    assert (row["status"], row["fault"]) == ("broken", "provider"), row["reason"]


def test_wire_that_the_provider_lacks_is_named(arena: House) -> None:
    row = arena.ended(started(arena, "long", {"wire": "responses"}), 60)
    assert row["status"] == "failed"
    assert "no wire format 'responses'" in row["reason"]


def test_large_output_is_bounded_for_the_model(arena: House, server: ModelServer) -> None:
    run = started(arena, "loud")
    assert arena.ended(run, 60)["status"] == "passed"
    (conversation,) = server.of("loud")
    output = conversation.output(conversation.calls[0])
    assert "characters left out]" in output and len(output) < 31_000


def test_settings_that_do_not_fit_are_refused_before_the_run() -> None:
    from runners.agents.model_loop import Settings

    with pytest.raises(ValueError, match="samples"):
        Settings.model_validate({"samples": 0})
    with pytest.raises(ValueError, match="Extra inputs"):
        Settings.model_validate({"temprature": 1})
