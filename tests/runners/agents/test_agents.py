"""Agents at work: each found is whole, the scripted one replays, the tuner really searches."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.languages import languages
from evaluation.tasks.spec import find_operators
from evaluation.tracks.load import load_task
from evaluation.tracks.workspace_files import starter_files
from runners.agent.confinement import confined, environment
from runners.agent.control_socket import Answer, ControlSocket
from runners.agent.workspace import Workspace
from runners.agents import compiler, given, load, names
from runners.agents.scripted import RECORDINGS
from runners.process.supervisor import Child, Ended
from tests.runners.house import ROOT

TARGET = "k.cpp"
ROUNDS = 20

TUNABLE = """\
// arena: flags -O2
// arena: tune-flags "-O2" "-O3" "-Oslow"
// arena: tune BLOCK 8 16 32
#define BLOCK 8
// arena: tune UNROLL 1 2
#define UNROLL 1
"""


class Studio:
    """An agent at work in its sandbox, with a judge that is a function of the source."""

    def __init__(self, folder: Path, source: str, target: str = TARGET) -> None:
        self.workspace = Workspace.create(folder / "w", {target: source}, target)
        self.events: list[dict[str, Any]] = []
        self.asked: list[str] = []

    def work(
        self,
        adapter: str,
        judge: Callable[[str], Answer],
        settings: Mapping[str, Any] | None = None,
        rounds: int = ROUNDS,
    ) -> Ended:
        def check(note: str) -> Answer:
            if len(self.asked) == rounds:
                return {"exit": 2, "text": "spent"}
            (source,) = self.workspace.read_target().values()
            self.asked.append(source)
            return {**judge(source), "rounds_left": rounds - len(self.asked)}

        def profile(case: str) -> Answer:
            return {"exit": 0, "text": f"profile of {case}"}

        folder = self.workspace.folder
        brief = {
            "task": "k/cpp-to-cpp",
            "target": self.workspace.target,
            "rounds": rounds,
            "seconds": 60,
        }
        request = {"adapter": adapter, "settings": settings or {}, "brief": brief}
        with ControlSocket(folder, check, profile) as control_socket:
            child = Child(
                confined(folder),
                on_lines=lambda lines: self.events.extend(map(json.loads, lines)),
                stdin=json.dumps(request),
                cwd=folder,
                env=environment(folder),
            )
            end = time.monotonic() + 60
            ended = child.follow(deadline=lambda: end)
        assert control_socket.failure is None
        return ended

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def target(self) -> str:
        return (self.workspace.folder / TARGET).read_text()


def timed(speedup: float, half_width: float = 0.01) -> Answer:
    low, high = speedup - half_width, speedup + half_width
    return {"exit": 0, "text": "passed", "speedup": speedup, "low": low, "high": high}


def failed(reason: str) -> Answer:
    return {"exit": 1, "text": f"failed {reason}", "reason": reason}


def value(source: str, name: str) -> str:
    found = re.search(rf"#define {name} (\S+)", source)
    assert found
    return found[1]


@pytest.mark.parametrize("name", names())
def test_every_module_of_the_folder_is_an_agent(name: str) -> None:
    for spec in load(name).SPECS:
        assert spec.title and spec.description


def test_no_two_agents_share_a_slug() -> None:
    slugs = [spec.slug for name in names() for spec in load(name).SPECS]
    assert len(slugs) == len(set(slugs))


def test_agents_import_nothing_of_the_arena() -> None:
    """They run where neither Django nor the database can be reached."""
    program = (
        "import runners.agent.session, runners.agents as a, sys\n"
        "for name in a.names(): a.load(name)\n"
        "print(*sys.modules)"
    )
    said: list[str] = []
    child = Child([sys.executable, "-c", program], on_lines=said.extend)
    child.follow(deadline=lambda: float("inf"))
    loaded = {name.partition(".")[0] for name in said[0].split()}
    assert not loaded & {"django", "arena", "evaluation", "dramatiq", "torch"}


def test_scripted_takes_each_kind_of_step_through_the_door(tmp_path: Path) -> None:
    studio = Studio(tmp_path, "int a;\n")
    steps = [
        {"say": "First I look."},
        {"run": "cat k.cpp; exit 3"},
        {"edit": TARGET, "old": "int a;", "new": "int b;"},
        {"write": "notes.txt", "text": ["one", "two"]},
        {"pause": 0.01},
        {"check": "hm"},
        {"profile": "wide"},
    ]
    ended = studio.work("scripted", lambda source: timed(1.5), {"steps": steps})
    assert (ended.code, ended.stderr) == (0, "")
    assert studio.kinds() == [
        "message", "tool_call", "tool_result", "file_edit", "file_edit", "tool_call", "tool_result",
        "tool_call", "tool_result",
    ]  # fmt: skip
    ran, edit, note, judged, profiled = (studio.events[i]["body"] for i in (2, 3, 4, 6, 8))
    assert (ran["exit_code"], ran["ok"], ran["output"]) == (3, False, "int a;\n")
    assert edit["operation"] == "modify"
    assert edit["diff"].splitlines() == [
        f"--- a/{TARGET}", f"+++ b/{TARGET}", "@@ -1 +1 @@", "-int a;", "+int b;",
    ]  # fmt: skip
    assert note["operation"] == "create"
    assert (studio.workspace.folder / "notes.txt").read_text() == "one\ntwo\n"
    assert (judged["ok"], judged["output"]) == (True, "passed")
    assert (profiled["tool"], profiled["output"]) == ("arena-profile", "profile of wide\n")
    assert studio.asked == ["int b;\n"]


def test_an_agent_works_where_its_python_is_a_link_through_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable).resolve()
    (tmp_path / "newest").symlink_to(python.parent)
    (tmp_path / "python").symlink_to(Path("newest") / python.name)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    studio = Studio(tmp_path / "studio", "int a;\n")
    ended = studio.work("scripted", lambda source: timed(1.5), {"steps": [{"check": "it runs"}]})
    assert (ended.code, ended.stderr, len(studio.asked)) == (0, "", 1)


def test_scripted_without_a_recording_for_the_task_says_which_there_are(tmp_path: Path) -> None:
    ended = Studio(tmp_path, "").work("scripted", lambda source: timed(1.0))
    assert ended.code == 1
    assert "there is no recording for k/cpp-to-cpp; there are: rms_norm" in ended.stderr


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_recording_replays_to_its_end(path: Path, tmp_path: Path) -> None:
    steps = [step for step in json.loads(path.read_text())["steps"] if "pause" not in step]
    target = next(step["write"] for step in steps if "write" in step)
    studio = Studio(tmp_path, "", target)
    ended = studio.work("scripted", lambda source: failed("BUILD_ERROR"), {"steps": steps})
    assert (ended.code, ended.stderr) == (0, "")
    assert len(set(studio.asked)) == sum("check" in step for step in steps) >= 3


def test_the_tuner_finds_the_fastest_setting_and_leaves_it_in_place(tmp_path: Path) -> None:
    def judge(source: str) -> Answer:
        if "flags -Oslow" in source:
            return failed("BUILD_ERROR")
        if value(source, "BLOCK") == "16":
            return failed("WRONG_VALUES")
        gain = 1.3 if "flags -O3" in source else 1.0
        gain *= 1.5 if value(source, "BLOCK") == "32" else 1.0
        return timed(gain * (0.8 if value(source, "UNROLL") == "2" else 1.0))

    studio = Studio(tmp_path, TUNABLE)
    ended = studio.work("tuner", judge)
    assert (ended.code, ended.stderr) == (0, "")
    best = studio.target()
    assert "arena: flags -O3" in best
    assert (value(best, "BLOCK"), value(best, "UNROLL")) == ("32", "1")
    assert studio.asked[0] == TUNABLE
    assert len(studio.asked) == len(set(studio.asked)) < ROUNDS
    assert "I keep compiler flags = -O3" in studio.events[-1]["body"]["text"]


def test_the_tuner_asks_again_about_what_may_be_luck(tmp_path: Path) -> None:
    times_asked: dict[str, int] = {}

    def judge(source: str) -> Answer:
        block = value(source, "BLOCK")
        times_asked[block] = times_asked.get(block, 0) + 1
        if block == "16":  # better by luck, once
            return timed(1.2 if times_asked[block] == 1 else 0.9, half_width=0.25)
        if block == "32":  # better, and again
            return timed(1.18, half_width=0.2)
        if block == "64":  # a high figure that says nothing
            return timed(1.5, half_width=0.9)
        return timed(1.0, half_width=0.1)

    studio = Studio(tmp_path, "// arena: tune BLOCK 8 16 32 64\n#define BLOCK 8\n")
    studio.work("tuner", judge)
    assert value(studio.target(), "BLOCK") == "32"
    assert times_asked == {"8": 1, "16": 2, "32": 2, "64": 1}


def test_the_tuner_ends_with_its_best_when_the_rounds_are_spent(tmp_path: Path) -> None:
    def judge(source: str) -> Answer:
        return timed(1.4 if "flags -O3" in source else 1.0)

    studio = Studio(tmp_path, TUNABLE)
    studio.work("tuner", judge, rounds=3)
    assert len(studio.asked) == 3
    assert "arena: flags -O3" in studio.target()


@pytest.mark.parametrize(("target", "profiled"), [("k.cu", True), (TARGET, False)])
def test_the_tuner_looks_where_the_time_of_a_gpu_kernel_goes(
    target: str, profiled: bool, tmp_path: Path
) -> None:
    studio = Studio(tmp_path, TUNABLE, target)
    studio.work("tuner", lambda source: timed(1.0), rounds=2)
    calls = [e["body"]["tool"] for e in studio.events if e["kind"] == "tool_call"]
    assert ("arena-profile" in calls) is profiled
    assert len(studio.asked) == 2, "a profile costs no round"


def test_the_tuner_with_nothing_to_tune_asks_once(tmp_path: Path) -> None:
    studio = Studio(tmp_path, "int f();\n")
    studio.work("tuner", lambda source: timed(1.0))
    assert studio.asked == ["int f();\n"]
    assert studio.target() == "int f();\n"


def test_the_tuner_that_starts_from_a_failure_says_so_and_stops(tmp_path: Path) -> None:
    studio = Studio(tmp_path, TUNABLE)
    ended = studio.work("tuner", lambda source: failed("WRONG_VALUES"))
    assert (ended.code, len(studio.asked)) == (0, 1)
    assert "no speedup to improve on" in studio.events[-1]["body"]["text"]


def test_an_agent_whose_arena_fails_stops(tmp_path: Path) -> None:
    studio = Studio(tmp_path, TUNABLE)
    ended = studio.work("tuner", lambda source: {"exit": 3, "text": "the arena failed"})
    assert (ended.code, len(studio.asked)) == (1, 1)
    assert "ArenaFailed: the arena failed" in ended.stderr


# The expert


SOFTMAX = ROOT / "tasks" / "softmax"


def test_the_expert_is_given_the_honest_answers_in_the_target_language() -> None:
    kept = given("expert", SOFTMAX, "cpp-to-cpp")
    assert set(kept) == {"answers/base_two", "answers/online"}
    assert kept["answers/online"] == (SOFTMAX / "honest" / "online.cpp.cpp").read_text()
    assert "answers/baseline" in given("expert", SOFTMAX, "torch-to-cpp")


@pytest.mark.parametrize("name", sorted(set(names()) - {"expert"}))
def test_no_other_agent_is_given_them(name: str) -> None:
    assert given(name, SOFTMAX, "cpp-to-cpp") == {}


def test_the_expert_hands_in_each_answer_and_leaves_the_best(tmp_path: Path) -> None:
    answers = {"answers/a": "speedup 1.2", "answers/b": "speedup 1.7", "answers/c": "wrong"}
    studio = Studio(tmp_path, "as it stands")
    studio.workspace = Workspace.create(tmp_path / "w", {TARGET: "as it stands", **answers}, TARGET)

    def judged(source: str) -> Answer:
        return failed("WRONG_VALUES") if source == "wrong" else timed(float(source.split()[1]))

    assert studio.work("expert", judged).code == 0
    assert studio.asked == ["speedup 1.2", "speedup 1.7", "wrong"]
    assert studio.target() == "speedup 1.7"


def test_the_expert_stops_when_its_rounds_are_spent(tmp_path: Path) -> None:
    studio = Studio(tmp_path, "as it stands")
    files = {TARGET: "x", "answers/a": "one", "answers/b": "two"}
    studio.workspace = Workspace.create(tmp_path / "w", files, TARGET)
    assert studio.work("expert", lambda source: timed(1.1), rounds=1).code == 0
    assert studio.asked == ["one"] and studio.target() == "one"


# PyTorch's compiler


def test_the_compiler_hands_in_the_reference_compiled_in_each_way(tmp_path: Path) -> None:
    skeleton = "def softmax(x, out, sums):\n    raise NotImplementedError\n"
    studio = Studio(tmp_path, skeleton, "softmax.py")
    files = {"softmax.py": skeleton, "reference.py": "def reference(x):\n    return x, x\n"}
    studio.workspace = Workspace.create(tmp_path / "w", files, "softmax.py")

    def judged(source: str) -> Answer:
        return timed(0.9 if "dynamic=True" in source else 1.2)

    assert studio.work("compiler", judged).code == 0
    assert len(studio.asked) == 2
    for source in studio.asked:
        assert "def softmax(x, out, sums):\n    returned = reference(x)\n" in source
        assert "zip(returned, (out, sums,))" in source
        assert "\n\nsoftmax = torch.compile(softmax" in source
    assert "dynamic" not in (studio.workspace.folder / "softmax.py").read_text()


@pytest.mark.parametrize("name", find_operators(ROOT / "tasks"))
def test_what_the_compiler_hands_in_breaks_no_rule(name: str) -> None:
    task = load_task(ROOT / "tasks", name, "torch-to-torch", "gpu")
    files = starter_files(task)
    for source in compiler.compiled(files["reference.py"], files[task.target_file]).values():
        files = {task.target_file: source}
        languages()["torch"].check(files, task)
        assert languages()["torch"].compiles(files, "gpu")
        assert not languages()["torch"].compiles(files, "cpu")
