"""Agents at work in their sandbox, with a scripted judge."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from evaluation.code.languages import languages
from evaluation.kinds.kernel.load import load_task, load_tasks
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.tasks.spec import find_operators, folder_of
from runners.agents import compiler, load, names, workspace_files
from runners.agents._parts.tunables import tunables
from runners.agents.scripted import RECORDINGS
from runners.process.supervisor import Child, Ended
from runners.session.confinement import PACKAGE, confined, environment
from runners.session.control_socket import Answer, ControlSocket
from runners.session.workspace import Workspace
from tests.runners.house import ROOT
from tests.waiting import PATIENCE_SECONDS

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


class AgentHarness:
    """An agent at work in its sandbox, with a function of the source as its judge."""

    def __init__(
        self, folder: Path, source: str, target: str = TARGET, package: Path = PACKAGE
    ) -> None:
        self.package = package
        self.workspace = Workspace.create(folder / "w", {target: source}, target)
        self.events: list[dict[str, Any]] = []
        self.submitted: list[str] = []

    def work(
        self,
        adapter: str,
        judge: Callable[[str], Answer],
        settings: Mapping[str, Any] | None = None,
        rounds: int = ROUNDS,
    ) -> Ended:
        def check(note: str) -> Answer:
            if len(self.submitted) == rounds:
                return {"exit": 2, "text": "spent"}
            (source,) = self.workspace.read_target().values()
            self.submitted.append(source)
            return {**judge(source), "rounds_left": rounds - len(self.submitted)}

        def profile(case: str) -> Answer:
            return {"exit": 0, "text": f"profile of {case}"}

        folder = self.workspace.folder
        brief = {
            "task": "k/cpp-to-cpp",
            "target": self.workspace.target,
            "rounds": rounds,
            "seconds": 60,
        }
        request = {
            "adapter": adapter,
            "settings": settings or {},
            "brief": brief,
            "model": None,
            "program": "",
        }
        with ControlSocket(folder, check, profile) as control_socket:
            child = Child(
                confined(folder, self.package),
                on_lines=lambda lines: self.events.extend(map(json.loads, lines)),
                stdin=json.dumps(request),
                cwd=folder,
                env=environment(folder),
            )
            late = time.monotonic() + PATIENCE_SECONDS  # waits: a deadline
            ended = child.follow(deadline=lambda: late)
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
def test_modules_of_the_folder_are_agents(name: str) -> None:
    for spec in load(name).SPECS:
        assert spec.title and spec.description


def test_slugs_of_agents_are_distinct() -> None:
    slugs = [spec.slug for name in names() for spec in load(name).SPECS]
    assert len(slugs) == len(set(slugs))


def test_agents_import_neither_arena_nor_judge() -> None:
    """Agents run where neither Django nor the database can be reached."""
    program = (
        "import runners.session.session, runners.agents as a, sys\n"
        "for name in a.names(): a.load(name)\n"
        "print(*sys.modules)"
    )
    lines: list[str] = []
    child = Child([sys.executable, "-c", program], on_lines=lines.extend)
    child.follow(deadline=lambda: float("inf"))
    loaded = {name.partition(".")[0] for name in lines[0].split()}
    assert not loaded & {"django", "arena", "evaluation", "dramatiq", "torch"}


def test_scripted_steps_of_each_kind_become_events(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int a;\n")
    steps = [
        {"say": "First I read it."},
        {"run": "cat k.cpp; exit 3"},
        {"edit": TARGET, "old": "int a;", "new": "int b;"},
        {"write": "notes.txt", "text": ["one", "two"]},
        {"pause": 0.01},
        {"check": "hm"},
        {"profile": "wide"},
    ]
    ended = harness.work("scripted", lambda source: timed(1.5), {"steps": steps})
    assert (ended.code, ended.stderr) == (0, "")
    assert harness.kinds() == [
        "message", "tool_call", "tool_result", "file_edit", "file_edit", "tool_call", "tool_result",
        "tool_call", "tool_result",
    ]  # fmt: skip
    ran, edit, note, judged, profiled = (harness.events[i]["body"] for i in (2, 3, 4, 6, 8))
    assert (ran["exit_code"], ran["ok"], ran["output"]) == (3, False, "int a;\n")
    assert edit["operation"] == "modify"
    assert edit["diff"].splitlines() == [
        f"--- a/{TARGET}", f"+++ b/{TARGET}", "@@ -1 +1 @@", "-int a;", "+int b;",
    ]  # fmt: skip
    assert note["operation"] == "create"
    assert (harness.workspace.folder / "notes.txt").read_text() == "one\ntwo\n"
    assert (judged["ok"], judged["output"]) == (True, "passed")
    assert (profiled["tool"], profiled["output"]) == ("arena-profile", "profile of wide\n")
    assert harness.submitted == ["int b;\n"]


def test_agent_with_a_symlinked_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable).resolve()
    (tmp_path / "newest").symlink_to(python.parent)
    (tmp_path / "python").symlink_to(Path("newest") / python.name)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    harness = AgentHarness(tmp_path / "harness", "int a;\n")
    ended = harness.work("scripted", lambda source: timed(1.5), {"steps": [{"check": "it runs"}]})
    assert (ended.code, ended.stderr, len(harness.submitted)) == (0, "", 1)


def test_scripted_without_a_recording_lists_those_that_exist(tmp_path: Path) -> None:
    ended = AgentHarness(tmp_path, "").work("scripted", lambda source: timed(1.0))
    assert ended.code == 1
    assert "there is no recording for k/cpp-to-cpp; there are: rms_norm" in ended.stderr


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)
def test_recordings_replay_to_their_end(path: Path, tmp_path: Path) -> None:
    steps = json.loads(path.read_text())["steps"]
    target = next(step["write"] for step in steps if "write" in step)
    harness = AgentHarness(tmp_path, "", target)
    ended = harness.work("scripted", lambda source: failed("BUILD_ERROR"), {"steps": steps})
    assert (ended.code, ended.stderr) == (0, "")
    assert len(set(harness.submitted)) == sum("check" in step for step in steps) >= 3


def test_tuner_goes_on_after_a_round_that_could_not_be_measured(tmp_path: Path) -> None:
    def judge(source: str) -> Answer:
        if len(harness.submitted) in (1, 2, 4):
            return {"exit": 3, "text": "busy", "verdict": "inconclusive"}
        return timed(1.5 if value(source, "BLOCK") == "32" else 1.0)

    harness = AgentHarness(tmp_path, TUNABLE)
    ended = harness.work("tuner", judge)
    assert (ended.code, ended.stderr) == (0, "")
    assert value(harness.target(), "BLOCK") == "32"
    assert len(set(harness.submitted[:3])) == len(set(harness.submitted[3:5])) == 1
    assert harness.kinds().count("note") == 3


def test_tuner_keeps_the_fastest_setting(tmp_path: Path) -> None:
    def judge(source: str) -> Answer:
        if "flags -Oslow" in source:
            return failed("BUILD_ERROR")
        if value(source, "BLOCK") == "16":
            return failed("WRONG_VALUES")
        gain = 1.3 if "flags -O3" in source else 1.0
        gain *= 1.5 if value(source, "BLOCK") == "32" else 1.0
        return timed(gain * (0.8 if value(source, "UNROLL") == "2" else 1.0))

    harness = AgentHarness(tmp_path, TUNABLE)
    ended = harness.work("tuner", judge)
    assert (ended.code, ended.stderr) == (0, "")
    best = harness.target()
    assert "arena: flags -O3" in best
    assert (value(best, "BLOCK"), value(best, "UNROLL")) == ("32", "1")
    assert harness.submitted[0] == TUNABLE
    assert len(harness.submitted) == len(set(harness.submitted)) < ROUNDS
    assert "I keep compiler flags = -O3" in harness.events[-1]["body"]["text"]


def test_tuner_confirms_a_noisy_improvement(tmp_path: Path) -> None:
    times_submitted: dict[str, int] = {}

    def judge(source: str) -> Answer:
        block = value(source, "BLOCK")
        times_submitted[block] = times_submitted.get(block, 0) + 1
        if block == "16":  # better by luck, once
            return timed(1.2 if times_submitted[block] == 1 else 0.9, half_width=0.25)
        if block == "32":  # better, and again
            return timed(1.18, half_width=0.2)
        if block == "64":  # a high figure that says nothing
            return timed(1.5, half_width=0.9)
        return timed(1.0, half_width=0.1)

    harness = AgentHarness(tmp_path, "// arena: tune BLOCK 8 16 32 64\n#define BLOCK 8\n")
    harness.work("tuner", judge)
    assert value(harness.target(), "BLOCK") == "32"
    assert times_submitted == {"8": 1, "16": 2, "32": 2, "64": 1}


def test_tuner_without_rounds_left_keeps_its_best(tmp_path: Path) -> None:
    def judge(source: str) -> Answer:
        return timed(1.4 if "flags -O3" in source else 1.0)

    harness = AgentHarness(tmp_path, TUNABLE)
    harness.work("tuner", judge, rounds=3)
    assert len(harness.submitted) == 3
    assert "arena: flags -O3" in harness.target()


@pytest.mark.parametrize(("target", "profiled"), [("k.cu", True), (TARGET, False)])
def test_tuner_profiles_gpu_kernels_only(target: str, profiled: bool, tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, TUNABLE, target)
    harness.work("tuner", lambda source: timed(1.0), rounds=2)
    calls = [e["body"]["tool"] for e in harness.events if e["kind"] == "tool_call"]
    assert ("arena-profile" in calls) is profiled
    assert len(harness.submitted) == 2, "a profile costs no round"


def test_tuner_takes_the_tasks_whose_starter_declares_tunables_and_no_others() -> None:
    (spec,) = load("tuner").SPECS
    folders = (folder_of(TASKS, name) for name in find_operators(TASKS))
    for task in (task for folder in folders for task in load_tasks(folder)):
        starter = starter_files(task)[task.target_file]
        taken = any(fnmatchcase(task.slug, pattern) for pattern in spec.tasks)
        assert taken is bool(tunables(starter)), task.slug


def test_tuner_without_tunables_submits_once(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, "int f();\n")
    harness.work("tuner", lambda source: timed(1.0))
    assert harness.submitted == ["int f();\n"]
    assert harness.target() == "int f();\n"


def test_tuner_with_a_failing_source_stops(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, TUNABLE)
    ended = harness.work("tuner", lambda source: failed("WRONG_VALUES"))
    assert (ended.code, len(harness.submitted)) == (0, 1)
    assert "no speedup to improve on" in harness.events[-1]["body"]["text"]


def test_agent_stops_when_the_arena_fails(tmp_path: Path) -> None:
    harness = AgentHarness(tmp_path, TUNABLE)
    ended = harness.work("tuner", lambda source: {"exit": 3, "text": "the arena failed"})
    assert (ended.code, len(harness.submitted)) == (3, 1)
    assert ended.stderr.strip() == "the arena failed"


# The expert


TASKS = ROOT / "tasks"


def test_expert_workspace_has_honest_implementations_in_the_target_language() -> None:
    files = workspace_files("expert", TASKS, "softmax", "cpp-to-cpp")
    assert set(files) == {"solutions/base_two", "solutions/online"}
    kept = TASKS / "Math" / "softmax" / "honest" / "online.cpp.cpp"
    assert files["solutions/online"] == kept.read_text()
    assert "solutions/baseline" in workspace_files("expert", TASKS, "softmax", "torch-to-cpp")


@pytest.mark.parametrize("name", sorted(set(names()) - {"expert"}))
def test_workspace_of_other_agents_has_no_solutions(name: str) -> None:
    assert workspace_files(name, TASKS, "softmax", "cpp-to-cpp") == {}


def test_expert_submits_each_solution_and_keeps_the_best(tmp_path: Path) -> None:
    solutions = {"solutions/a": "speedup 1.2", "solutions/b": "speedup 1.7", "solutions/c": "wrong"}
    harness = AgentHarness(tmp_path, "as it stands")
    harness.workspace = Workspace.create(
        tmp_path / "w", {TARGET: "as it stands", **solutions}, TARGET
    )

    def judged(source: str) -> Answer:
        return failed("WRONG_VALUES") if source == "wrong" else timed(float(source.split()[1]))

    assert harness.work("expert", judged).code == 0
    assert harness.submitted == ["speedup 1.2", "speedup 1.7", "wrong"]
    assert harness.target() == "speedup 1.7"


@pytest.mark.parametrize(
    ("names", "rounds", "submitted"), [("ab", 1, ""), ("a", 3, ""), ("abc", 2, "ab")]
)
def test_expert_spends_rounds_only_to_choose(
    names: str, rounds: int, submitted: str, tmp_path: Path
) -> None:
    harness = AgentHarness(tmp_path, "as it stands")
    files = {TARGET: "x", **{f"solutions/{name}": name for name in names}}
    harness.workspace = Workspace.create(tmp_path / "w", files, TARGET)
    gains = dict(zip("abc", (1.3, 1.2, 1.1), strict=True))
    assert harness.work("expert", lambda source: timed(gains[source]), rounds=rounds).code == 0
    assert "".join(harness.submitted) == submitted and harness.target() == "a"


# PyTorch's compiler


def test_compiler_submits_the_reference_compiled_in_each_mode(tmp_path: Path) -> None:
    skeleton = "def softmax(x, out, sums):\n    raise NotImplementedError\n"
    harness = AgentHarness(tmp_path, skeleton, "softmax.py")
    files = {"softmax.py": skeleton, "reference.py": "def reference(x):\n    return x, x\n"}
    harness.workspace = Workspace.create(tmp_path / "w", files, "softmax.py")

    def judged(source: str) -> Answer:
        return timed(0.9 if "dynamic=True" in source else 1.2)

    assert harness.work("compiler", judged).code == 0
    assert len(harness.submitted) == 2
    for source in harness.submitted:
        assert "def softmax(x, out, sums):\n    returned = reference(x)\n" in source
        assert "zip(returned, (out, sums,))" in source
        assert "\n\nsoftmax = torch.compile(softmax" in source
    assert "dynamic" not in (harness.workspace.folder / "softmax.py").read_text()


@pytest.mark.parametrize("name", find_operators(ROOT / "tasks"))
def test_compiler_sources_pass_static_analysis(name: str) -> None:
    task = load_task(ROOT / "tasks", name, "torch-to-torch", "gpu")
    files = starter_files(task)
    for source in compiler.compiled(files["reference.py"], files[task.target_file]).values():
        files = {task.target_file: source}
        languages()["torch"].check(files, task)
        assert languages()["torch"].compiles(files, "gpu")
        assert not languages()["torch"].compiles(files, "cpu")
