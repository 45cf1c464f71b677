"""Verdicts on changed files of a repository, each failure with its reason and message."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from evaluation.bench.timing.disturbance import Disturbance
from evaluation.bench.timing.estimates import Blocks
from evaluation.errors import Broken, Inconclusive
from evaluation.kinds.repository import benchmark
from evaluation.kinds.repository.judge import judge
from evaluation.kinds.repository.task import RepositoryTask, load
from evaluation.types import GateName, Reason, Report, Verdict
from tests.evaluation.kinds.repository.conftest import write


def judged(task: RepositoryTask, cache: Path, kernel: str, **options: object) -> Report:
    return judge(task, {"kernel.sh": kernel}, cache, **options)  # type: ignore[arg-type]


def failed(report: Report) -> tuple[GateName, Verdict, Reason | None]:
    return report.gates[-1].gate, report.verdict, report.reason


def test_faster_candidate_passes_with_its_speedup(answer: RepositoryTask, cache: Path) -> None:
    report = judged(answer, cache, "answer=42\ntime=50\n")
    assert report.verdict is Verdict.PASSED
    assert [gate.gate for gate in report.gates] == list(GateName)[:4]
    assert report.seen is not None
    assert report.seen.speedup == pytest.approx(2)
    assert report.seen.low < 2 < report.seen.high
    assert report.unseen == report.seen
    assert report.task_hash == answer.hash
    performance = report.gates[-1]
    assert performance.detail["clock"] == "suite"
    assert "by the suite's own clock" in performance.message
    (measurement,) = performance.measurements
    assert (measurement.case, measurement.candidate_us, measurement.baseline_us) == ("one", 50, 100)


def test_round_has_no_speedup_on_unseen_inputs(answer: RepositoryTask, cache: Path) -> None:
    report = judged(answer, cache, "answer=42\ntime=50\n", final=False)
    assert report.seen is not None
    assert report.unseen is None


def test_wrong_values_fail_with_the_last_line_of_the_tests(
    answer: RepositoryTask, cache: Path
) -> None:
    report = judged(answer, cache, "answer=41\ntime=1\n")
    assert failed(report) == (GateName.CORRECTNESS, Verdict.FAILED, Reason.WRONG_VALUES)
    assert report.message == "the tests failed: it ended with code 1: answer is 41"
    assert "answer is 41" in report.gates[-1].compiler[0].text


def test_build_error_shows_the_output(answer: RepositoryTask, cache: Path) -> None:
    report = judged(answer, cache, "answer=42\nif\n")
    assert failed(report) == (GateName.COMPILE, Verdict.FAILED, Reason.BUILD_ERROR)
    assert "Syntax error" in report.gates[-1].compiler[0].text
    assert report.message.startswith("the build failed: it ended with code 2")


@pytest.mark.parametrize(
    ("path", "verdict", "message"),
    [
        ("tests/check.sh", Verdict.REJECTED, "tests/check.sh may not be edited; what may: kernel"),
        ("repository.toml", Verdict.REJECTED, "may not be edited"),
        ("../outside.sh", Verdict.REJECTED, "no path below the repository"),
        ("/etc/passwd", Verdict.REJECTED, "no path below the repository"),
        ("more/../build.sh", Verdict.REJECTED, "no path below the repository"),
        ("more/a\nb.sh", Verdict.FAILED, "no name for a file"),
    ],
)
def test_file_that_may_not_be_edited_is_refused(
    path: str, verdict: Verdict, message: str, answer: RepositoryTask, cache: Path
) -> None:
    report = judge(answer, {"kernel.sh": "", path: ""}, cache)
    assert report.gates[-1].gate is GateName.INTEGRITY
    assert report.verdict is verdict
    assert message in report.message


def test_file_in_place_of_a_folder_is_refused(tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path, {"lib/x/y": "", "lib/file": ""})
    toml = (folder / "repository.toml").read_text()
    (folder / "repository.toml").write_text(toml.replace('"more/*.sh"', '"lib/**"'))
    for path, message in (("lib/x", "lib/x is a folder"), ("lib/file/new", "lib/file is a file")):
        report = judge(load(folder), {path: ""}, cache)
        assert (report.reason, message in report.message) == (Reason.BAD_SOURCE, True)


def test_new_file_of_a_glob_is_built(answer: RepositoryTask, cache: Path) -> None:
    kernel = "answer=42\n. ./more/new.sh\n"
    report = judge(answer, {"kernel.sh": kernel, "more/new.sh": "time=25\n"}, cache)
    assert report.seen is not None
    assert report.seen.speedup == pytest.approx(4)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ('[ "$0" = build.sh ] || exit 0', "the benchmark printed no JSON line"),
        ("answer=42; ARENA_NONCE=0; time=1", "the benchmark's nonce is not that of ARENA_NONCE"),
        *(
            (f"answer=42; time={time}", "case one: its time must be a number of microseconds, at")
            for time in (
                "0",
                "-1",
                "true",
                "NaN",
                "Infinity",
                "1e400",
                "1e-300",
                "0.0009",
                "3600e6",
                "9" * 400,
                "9" * 5000,
            )
        ),
        (
            'answer=42; time=1; printf \'{"nonce": "", "times_us": {}}\\n\'',
            "the benchmark printed 2 JSON lines",
        ),
        ("answer=42; time='1, \"two\": 2'", "the cases are one, two; those of the baseline one"),
    ],
)
def test_benchmark_without_one_right_line_is_refused(
    kernel: str, message: str, answer: RepositoryTask, cache: Path
) -> None:
    report = judged(answer, cache, kernel)
    assert failed(report) == (GateName.PERFORMANCE, Verdict.FAILED, Reason.PROTOCOL)
    assert message in report.message


def test_hanging_tests_time_out(answer: RepositoryTask, cache: Path) -> None:
    report = judged(answer, cache, '[ "$0" = build.sh ] || sleep 60\nanswer=42\n')
    assert failed(report) == (GateName.CORRECTNESS, Verdict.FAILED, Reason.TIMEOUT)
    assert report.message == "the tests failed: it took longer than 2 s"


def test_network_is_out_of_reach(answer: RepositoryTask, cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        report = judged(answer, cache, f'python3 -c "{connect}" && answer=42\ntime=1\n')
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert failed(report) == (GateName.CORRECTNESS, Verdict.FAILED, Reason.WRONG_VALUES)


def test_build_cannot_change_the_tests(answer: RepositoryTask, cache: Path) -> None:
    change = "echo exit 0 > tests/check.sh"
    report = judged(answer, cache, f'[ "$0" = build.sh ] && {{ {change}; }}\nanswer=41\n')
    assert failed(report) == (GateName.CORRECTNESS, Verdict.FAILED, Reason.WRONG_VALUES)


def test_build_cannot_write_through_a_link(
    answer: RepositoryTask, cache: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = f'[ "$0" = build.sh ] && {{ rm -rf tests; ln -s {outside} tests; }}\n'
    assert judged(answer, cache, f"{link}answer=42\ntime=10\n").verdict is Verdict.PASSED
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "build",
    [
        "truncate -s 100M a b c d e f",
        'for n in $(seq 40); do d=$(printf "%0200d" 0); mkdir "$d"; cd -P "$d"; done',
    ],
)
def test_build_that_cannot_be_copied_is_refused(
    build: str, answer: RepositoryTask, cache: Path
) -> None:
    kernel = f'[ "$0" = build.sh ] && ( {build} )\nanswer=42\ntime=1\n'
    report = judged(answer, cache, kernel)
    assert failed(report) == (GateName.COMPILE, Verdict.FAILED, Reason.BUILD_ERROR)
    assert "what it built cannot be kept" in report.message


def test_message_has_only_printable_characters(answer: RepositoryTask, cache: Path) -> None:
    report = judged(answer, cache, r"answer=$(printf 'a\001b\033')")
    assert report.message.endswith("answer is a\ufffdb\ufffd")


def test_processes_leave_nothing_to_the_next(answer: RepositoryTask, cache: Path) -> None:
    left = '[ "$0" = build.sh ] || { [ -e left ] && time=1; touch left "$HOME/left"; }\n'
    report = judged(answer, cache, f"answer=42\ntime=100\n{left}")
    assert report.seen is not None
    assert report.seen.speedup == pytest.approx(1)


def test_repository_that_fails_its_own_tests_is_not_the_candidates_fault(
    tmp_path: Path, cache: Path
) -> None:
    task = load(write(tmp_path, {"tests/check.sh": "echo no compiler; exit 1\n"}))
    report = judged(task, cache, "answer=42\ntime=1\n")
    assert (report.verdict, report.reason) == (Verdict.BROKEN, Reason.JUDGE_ERROR)
    assert report.message.startswith("of the unchanged repository, the tests failed")


def test_stages_judge_once_each(answer: RepositoryTask, cache: Path) -> None:
    files = {"kernel.sh": "answer=42\ntime=20\n"}
    built = judge(answer, files, cache, stage="build")
    assert [gate.gate for gate in built.gates] == [GateName.INTEGRITY, GateName.COMPILE]
    assert built.gates[-1].compiler[0].text.startswith("$ sh build.sh")
    measured = judge(answer, files, cache, stage="measure")
    assert [g.gate for g in measured.gates] == [GateName.CORRECTNESS, GateName.PERFORMANCE]
    assert measured.seen is not None
    assert measured.seen.speedup == pytest.approx(5)


def test_task_for_a_gpu_is_skipped_without_one(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.device_kind.gpu_vendor", lambda: "")
    folder = write(tmp_path)
    toml = (folder / "repository.toml").read_text()
    (folder / "repository.toml").write_text(f'device = "gpu"\n{toml}')
    report = judged(load(folder), cache, "answer=42\ntime=20\n")
    assert failed(report) == (GateName.CORRECTNESS, Verdict.SKIPPED, Reason.NO_DEVICE)


def test_both_commands_get_the_seed_of_the_verdict(tmp_path: Path, cache: Path) -> None:
    bench = '. ./built.sh; printf \'{"nonce": "%s", "times_us": {"one": %s}}\\n\' '
    task = load(
        write(
            tmp_path,
            {
                "tests/check.sh": '[ -n "$ARENA_SEED" ]\n',
                "bench.sh": f'{bench} "$ARENA_NONCE" "1.${{ARENA_SEED}}"\n',
            },
        )
    )
    report = judged(task, cache, "answer=42\n")
    assert report.seen is not None
    assert report.seen.speedup == pytest.approx(1)


class Others:
    """Other work that takes these shares of the cores, block by block, and then none."""

    def __init__(self, *shares: float) -> None:
        self.shares = list(shares)

    def share(self) -> float:
        return self.shares.pop(0) if self.shares else 0.0


def measured(
    candidate: Callable[[], benchmark.Times],
    extent: benchmark.Extent,
    *shares: float,
    quiet: bool = True,
    tolerant: bool = False,
) -> dict[str, Blocks]:
    """Measure against a baseline of 20 us on a machine that is `quiet` between blocks, or never."""
    ticks = itertools.count()
    disturbance = Disturbance(
        3.0, lambda: (next(ticks) if quiet else 0, next(ticks) + 1), lambda seconds: None, tolerant
    )
    others = Others(*shares)
    return benchmark.blocks(
        candidate, lambda: {"one": 20.0}, extent, disturbance, cast(Any, lambda: others)
    )


def test_measuring_ends_when_intervals_are_narrow_or_with_the_last_block() -> None:
    extent = benchmark.Extent(2, 5, 0.05, 60.0)
    assert len(measured(lambda: {"one": 10.0}, extent)["one"].counted) == 2
    slower = itertools.count(1)
    drifting = measured(lambda: {"one": 10.0 * next(slower)}, extent)
    assert len(drifting["one"].counted) == 5


def test_block_beside_other_work_is_left_out_and_measured_again() -> None:
    times = itertools.chain((90.0, 90.0), itertools.repeat(10.0))
    found = measured(lambda: {"one": next(times)}, benchmark.Extent(2, 5, 0.05, 60.0), 0.5)
    assert [block.candidate for block in found["one"].counted] == [10.0, 10.0]
    assert found["one"].disturbed == 1
    (measurement,) = benchmark.measurements(found, tolerant=False)
    assert not measurement.noisy


def test_machine_that_stays_busy_is_inconclusive() -> None:
    extent = benchmark.Extent(2, 5, 0.05, 60.0)
    with pytest.raises(Inconclusive, match="other work took 50 % of the cores"):
        measured(lambda: {"one": 10.0}, extent, 0.5, quiet=False)


def test_times_beside_tolerated_work_are_noisy() -> None:
    extent = benchmark.Extent(2, 2, 0.05, 60.0)
    found = measured(lambda: {"one": 10.0}, extent, 0.5, 0.5, tolerant=True)
    assert len(found["one"].counted) == 2
    (measurement,) = benchmark.measurements(found, tolerant=True)
    assert measurement.noisy


def test_baseline_with_other_cases_each_time_is_broken() -> None:
    names = itertools.count()
    with pytest.raises(Broken, match="other cases each time"):
        benchmark.blocks(
            lambda: {"0": 1.0},
            lambda: {str(next(names)): 1.0},
            benchmark.Extent(1, 1, 1.0, 1.0),
            Disturbance(0.0),
        )
