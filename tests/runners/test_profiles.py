"""Profiles of an agent's last round: limited in number, and without cost of rounds."""

from __future__ import annotations

from runners.worker.attempt import PROFILES
from tests.runners.house import CASES, TARGET, House
from tests.runners.worker.test_attempt import hand_in, tool_outputs


def test_profile_is_answered_and_recorded(house: House) -> None:
    run = house.run([*hand_in("speedup 1.5"), {"profile": "wide"}, *hand_in("speedup 1.2")])
    row = house.ended(run)
    assert (row["status"], row["rounds"], row["speedup"]) == ("passed", 2, 1.5)
    output = tool_outputs(house, run)[1].splitlines()
    assert output == [
        f"profile of round 1, {PROFILES - 1} of {PROFILES} left",
        "case wide: k<float> 12.50",
    ]
    (event,) = house.events(run, "profiler_output")
    body = event["body"]
    assert (body["case"], body["round"], body["tool"]) == ("wide", 1, "fake 1")
    assert body["kernels"][0]["stalls"] == {"long scoreboard": 0.5}
    call = next(e for e in house.events(run, "tool_call") if e["body"]["tool"] == "arena-profile")
    result = next(e for e in house.events(run, "tool_result") if e["seq"] > event["seq"])
    assert call["seq"] < event["seq"]
    assert result["body"]["call"] == call["event_id"]
    ends = [e["body"] for e in house.events(run, "span_end") if e["span"] == event["span"]]
    assert [(end["ok"], end["verdict"]) for end in ends] == [(True, "")]


def test_profile_of_a_changed_file_says_so(house: House) -> None:
    edit = {"write": TARGET, "text": "speedup 9"}
    run = house.run([{"profile": ""}, *hand_in("speedup 1.5"), edit, {"profile": ""}])
    house.ended(run)
    before, _, after = tool_outputs(house, run)
    assert before.startswith("Nothing was handed in yet")
    assert after.startswith("profile of round 1")
    assert "the file has changed since that round" in after


def test_profiles_are_limited_and_repeats_are_free(house: House) -> None:
    requests = [{"profile": f"case {number}"} for number in range(PROFILES)]
    run = house.run([*hand_in("speedup 1.5"), *requests, requests[0], {"profile": "wide"}])
    house.ended(run, 60)
    output = tool_outputs(house, run)[1:]
    assert output[PROFILES - 1].startswith(f"profile of round 1, 0 of {PROFILES} left")
    assert output[PROFILES] == output[0].replace(f"{PROFILES - 1} of", "0 of")
    assert (
        output[PROFILES + 1]
        == f"All {PROFILES} profiles of this run are spent; verdicts are not.\n"
    )
    (limit,) = house.events(run, "limit")
    assert (limit["body"]["name"], limit["body"]["used"]) == ("profiles", PROFILES)
    assert len(house.events(run, "profiler_output")) == PROFILES


def test_profile_of_an_unknown_case_is_refused_and_free(
    house: House,
) -> None:
    run = house.run([*hand_in("speedup 1.5"), {"profile": "wid"}, {"profile": "wide"}])
    house.ended(run)
    _, refused, output = tool_outputs(house, run)
    assert refused == f"There is no seen case 'wid'; there are: {', '.join(CASES)}.\n"
    assert output.startswith(f"profile of round 1, {PROFILES - 1} of {PROFILES} left")
    (note,) = house.events(run, "note")
    assert note["body"]["text"] == refused.strip()
    assert len(house.events(run, "profiler_output")) == 1


def test_profile_without_a_profiler_gives_the_reason(house: House) -> None:
    run = house.run([*hand_in("speedup 1.5 no profiler"), {"profile": ""}])
    assert house.ended(run)["status"] == "passed"
    assert "no profiler for the CPU here: needs a GPU" in tool_outputs(house, run)[1]
    (event,) = house.events(run, "profiler_output")
    assert event["body"]["kernels"] == []
    assert event["body"]["message"] == "no profiler for the CPU here: needs a GPU"


def test_profile_of_an_uncompiled_round_is_refused(house: House) -> None:
    run = house.run([*hand_in("does not compile"), {"profile": ""}])
    house.ended(run)
    assert "Round 1 did not compile" in tool_outputs(house, run)[1]


def test_broken_profiler_does_not_end_the_run(house: House) -> None:
    run = house.run([*hand_in("speedup 1.5, spoils a profile"), {"profile": ""}])
    row = house.ended(run, 60)
    assert (row["status"], row["speedup"]) == ("passed", 1.5)
    assert "through no fault of yours" in tool_outputs(house, run)[1]
