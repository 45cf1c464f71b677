"""Records grow line by line, and survive an end at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation import JUDGE_VERSION
from evaluation.errors import RequestError
from evaluation.importers.generations import records
from evaluation.importers.generations.campaign import OTHER_ARGUMENTS, is_final, lost
from evaluation.importers.generations.generation import Claim, Generation
from evaluation.importers.generations.verdicts import TIMEOUT, clean, unjudged

GENERATION = Generation("c", "m", "kernelbench", 1, 2, 0, "address", "text", Claim(True, 2.0))


def record(sample: int) -> dict[str, object]:
    each = Generation("c", "m", "kernelbench", 1, 2, sample, "address", "text")
    return records.record_of(each, "kb1_2_a", unjudged("NO_TASK", "message"))


def test_record_has_no_source_and_the_key_of_its_generation() -> None:
    made = records.record_of(GENERATION, "kb1_2_a", unjudged("NO_TASK", "message"))

    assert "text" not in made.values() and records.key_of(made) == GENERATION.key
    assert made["claimed"] == {"right": True, "speedup": 2.0, "hardware": "", "baseline": ""}
    assert set(made["judged"]) == {
        *("status", "reason", "message", "gate", "broke_at", "speedup", "low", "high"),
        *("noisy", "hidden_speedup", "precision_rule", "right_by", "seconds", "judge_version"),
    }


def test_file_that_was_cut_off_amid_a_line_continues(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first = records.RecordFile(path, {"judge_version": "7"}, [])
    first.add(record(0))
    first.add(record(1))
    path.write_bytes(path.read_bytes()[:-20])  # killed

    head, kept = records.read(path)
    again = records.RecordFile(path, head, kept)
    again.add(record(1))
    again.add(record(0))
    again.close("later")

    head, kept = records.read(path)
    assert head["format"] == 1 and head["judge_version"] == "7" and head["ended_at"] == "later"
    assert [each["sample"] for each in kept] == [0, 1]


def test_record_keeps_the_version_of_its_judge_when_another_one_continues_the_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "records.jsonl"
    old = record(0)
    judged = unjudged("NO_TASK", "message")
    old["judged"] = {name: judged[name] for name in judged if name != "judge_version"}
    records.RecordFile(path, {"judge_version": "7"}, [old]).close("then")
    again = records.RecordFile(path, {"judge_version": "9"}, records.read(path)[1])
    again.add(record(1))
    again.close("now")
    head, kept = records.read(path)
    versions = [each["judged"]["judge_version"] for each in kept]
    assert head["judge_version"] == "9" and versions == ["7", JUDGE_VERSION]


def test_file_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert records.read(tmp_path / "none.jsonl") == ({}, [])
    (tmp_path / "empty.jsonl").touch()
    assert records.read(tmp_path / "empty.jsonl") == ({}, [])


@pytest.mark.parametrize(
    "content",
    [b"notes", b'{"format": 99}\n{}\n', b"[1]\n", b'{"format": 1}\n{"level": 1}\n', b"\xff\xfe"],
)
def test_file_of_anything_else_is_refused_and_stays(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"notes\.md: not records.*; name another file"):
        records.read(path)
    assert path.read_bytes() == content


def test_place_where_no_file_can_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not a regular file; name another"):
        records.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="name another --export"):
        records.RecordFile(tmp_path / "file" / "records.jsonl", {}, [])


def test_message_is_one_line_without_folders_and_short() -> None:
    assert clean("in /tmp/build-1/x/kb.py:3:\n  bad\x07") == (
        "in kb.py:3: bad\N{REPLACEMENT CHARACTER}"
    )
    trace = 'ran: Traceback:\n  File "/x/y/kb.py", line 3, in forward\n    a\nValueError: no /x/y/z'
    assert clean(trace) == "ValueError: no z"
    hints = "\nCUDA errors may be reported late.\n\nCompile with `TORCH_USE_CUDA_DSA`."
    assert clean(f"{trace}{hints}") == "ValueError: no z"
    assert len(clean("a" * 1000)) == records.MAX_MESSAGE


def test_reason_of_a_late_verdict_names_the_options_for_another() -> None:
    late, ended = (lost(text, text == "over the time limit of 60 s")["judged"] for text in (
        "over the time limit of 60 s", "the process that judges ended with code 1",
    ))  # fmt: skip
    assert late["reason"] == TIMEOUT
    assert late["message"] == (
        "over the time limit of 60 s; --again judges it again, with a larger --limit"
    )
    assert ended["message"] == "the process that judges ended with code 1"


def test_only_what_has_no_verdict_is_judged_once_more() -> None:
    def made(status: str, reason: str) -> dict[str, Any]:
        return {"judged": {"status": status, "reason": reason}}

    for status, reason, final, final_again in (
        ("passed", "", True, True),
        ("wrong", "WRONG_VALUES", True, True),
        ("not_judged", "JUDGE_ERROR", False, False),
        ("not_judged", "NO_TASK", False, False),
        ("not_judged", TIMEOUT, True, False),
        ("not_judged", OTHER_ARGUMENTS, True, False),
        ("inconclusive", "MACHINE_BUSY", False, False),
        ("inconclusive", "FASTER_THAN_ROOFLINE", True, False),
    ):
        assert is_final(made(status, reason)) is final
        assert is_final(made(status, reason), again=True) is final_again
