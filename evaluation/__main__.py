"""The command line of the judge.

    python -m evaluation judge rms_norm torch-to-cpp solution.cpp [--json] [--scope round|final]
                                    [--device 1]
    python -m evaluation profile rms_norm torch-to-cuda solution.cu [--case NAME] [--json]
    python -m evaluation admit rms_norm [torch-to-cpp]
    python -m evaluation hardware [--json]
    python -m evaluation            one JSON request on stdin, JSON lines on stdout
    python -m evaluation wait       the same, but made ready first, and says so

Exit codes: 0 judged and passed, 1 judged and not passed, 2 bad arguments or task, 3 broken (ours);
of a profile, 0 with kernels, 1 without.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import select
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The judge's own threads must be asleep, not spinning, while a contestant is on the clock. Read
# when torch is imported.
os.environ["GOMP_SPINCOUNT"] = "0"

from evaluation import device_kind, pipeline, report_text
from evaluation.building.cache_folder import default_cache
from evaluation.errors import RequestError
from evaluation.gates.integrity import MOST_BYTES
from evaluation.tasks.spec import Task, folder_of
from evaluation.tracks.load import load_task, load_tasks
from evaluation.types import GateResult, Report, Verdict, to_json

if TYPE_CHECKING:
    from evaluation.process.fork_server import ForkServer

PASSED, NOT_PASSED, BAD_REQUEST, BROKEN = 0, 1, 2, 3
TASKS = Path(__file__).resolve().parent.parent / "tasks"
IDLE_SECONDS = 3.0
"""Without a request for so long, a judge that waits imports what only some have need of: whoever
asks in the meantime has to wait.
"""


def main(argv: Sequence[str]) -> int:
    """Run one command; see the module's docstring for the exit codes."""
    if not argv:
        return serve_request(sys.stdin.read())
    if argv == ["wait"]:
        return wait_for_request()
    options = _parser().parse_args(argv)
    try:
        if importlib.util.find_spec("torch") is None:
            raise RequestError(
                f"{sys.executable} has no PyTorch; the project's own Python, .venv/bin/python, has"
            )
        if getattr(options, "device", None):
            _alone_with(options, argv)
        return int(options.command(options))
    except RequestError as error:
        print(f"evaluation: {error}", file=sys.stderr)
        return BAD_REQUEST
    except BrokenPipeError:  # whoever read has gone; there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except Exception:
        traceback.print_exc()
        return BROKEN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation", description="Judge kernels on this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    judge = commands.add_parser("judge", help="judge one submission through every gate")
    judge.add_argument("operator", help="such as rms_norm")
    judge.add_argument("track", help="such as torch-to-cpp")
    judge.add_argument(
        "sources", nargs="+", type=Path, help="the target file, and headers beside it"
    )
    judge.add_argument(
        "--scope", choices=pipeline.SCOPES, default="final", help="round: seen cases only"
    )
    judge.add_argument(
        "--json", action="store_true", help="one JSON line per gate, then the report"
    )
    judge.set_defaults(command=judge_sources)
    profile = commands.add_parser("profile", help="where the time of a GPU kernel goes")
    profile.add_argument("operator")
    profile.add_argument("track")
    profile.add_argument("sources", nargs="+", type=Path, help="as for judge")
    profile.add_argument("--case", default="", help="a seen case; default: the largest")
    profile.add_argument("--json", action="store_true")
    profile.set_defaults(command=profile_sources)
    tries = "try a task: wrong answers must fail, honest ones pass"
    admit = commands.add_parser("admit", help=tries, description=f"{tries}. See tasks/README.md.")
    admit.add_argument(
        "operator", help="a folder of tasks, such as rms_norm, or rms_norm/cpp-to-cpp"
    )
    admit.add_argument("track", nargs="?", help="default: every track of the operator")
    admit.add_argument("--json", action="store_true")
    admit.set_defaults(command=admit_tasks)
    hardware = commands.add_parser("hardware", help="devices, measured peaks, isolation available")
    hardware.add_argument("--json", action="store_true")
    hardware.set_defaults(command=show_hardware)
    for command in (judge, profile, admit):
        command.add_argument("--tasks", type=Path, default=TASKS, help="the folder of operators")
        command.add_argument(
            "--device", help="which of several GPUs: its number, slug or UUID; default: the first"
        )
    for command in (judge, profile, admit, hardware):
        command.add_argument(
            "--cache", type=_cache, default="", help="artefacts and measured peaks"
        )
    return parser


def _cache(path: str) -> Path:
    """The cache that is asked for, by an absolute path: compilers run in folders of their own."""
    return (Path(path) if path else default_cache()).absolute()


def _alone_with(options: argparse.Namespace, argv: Sequence[str]) -> None:
    """Start over as a process that sees no GPU but the one asked for, if this one sees others: CUDA
    reads once what it may see. Raises RequestError.
    """
    from evaluation.devices import detect

    device = detect.named(options.device, options.cache)
    if device.unjudged:
        raise RequestError(f"{device.slug}: {device.unjudged}")
    if device.environment:
        command = [sys.executable, "-m", "evaluation", *argv, "--device", device.uuid]
        os.execve(sys.executable, command, {**os.environ, **device.environment})


def _task(options: argparse.Namespace) -> Task:
    """The task that was named. Raises RequestError where no device of its kind was asked for."""
    task = load_task(options.tasks, options.operator, options.track)
    if why := _misplaced(task, options):
        raise RequestError(f"{task.slug} {why}")
    return task


def _misplaced(task: Task, options: argparse.Namespace) -> str:
    """Why a task is not judged on the device that was asked for; empty when it is."""
    from evaluation.devices import detect

    if not options.device:
        return ""
    device = detect.named(options.device, options.cache)
    if device.kind == task.kind:
        return ""
    wanted = "a GPU" if task.kind == device_kind.GPU else "a processor"
    return f"is judged on {wanted}, and {device.slug} is none"


def judge_sources(options: argparse.Namespace) -> int:
    task = _task(options)
    request = pipeline.Request(
        task,
        read_sources(task, options.sources),
        options.cache,
        scope=options.scope,
        unconfined=_unconfined(),
    )
    if options.json:
        return _exit_code(_emit_lines(request))
    report = pipeline.evaluate(request, lambda result: print(report_text.gate(result), flush=True))
    print(report_text.report(report))
    return _exit_code(report)


def profile_sources(options: argparse.Namespace) -> int:
    from evaluation import profiling

    task = _task(options)
    case = profiling.chosen_case(task, options.case)
    files = read_sources(task, options.sources)
    request = pipeline.Request(task, files, options.cache, unconfined=_unconfined())
    found = profiling.profile_of(request, case)
    print(json.dumps(to_json(found)) if options.json else profiling.table(found))
    return PASSED if found.kernels else NOT_PASSED


def admit_tasks(options: argparse.Namespace) -> int:
    from evaluation.admission.admit import Attempt, admit
    from evaluation.languages import languages

    def heard(attempt: Attempt) -> None:
        if not options.json:
            print(report_text.attempt(attempt), flush=True)

    options.operator, _, track = options.operator.partition("/")  # as tasks are named elsewhere
    options.track = options.track or track
    folder = folder_of(options.tasks, options.operator)
    tasks = [_task(options)] if options.track else load_tasks(folder)
    admitted = True
    for task in tasks:
        if why := languages()[task.track.target].runs_here() or _misplaced(task, options):
            print(f"{task.slug}: not tried: {why}", file=sys.stderr)
            continue
        if not options.json:
            print(f"{task.slug} is tried with each answer that is kept of it:", flush=True)
        admission = admit(task, options.cache, heard)
        print(
            json.dumps(to_json(admission)) if options.json else report_text.admission(admission),
            flush=True,
        )
        admitted = admitted and admission.admitted
    return PASSED if admitted else NOT_PASSED


def show_hardware(options: argparse.Namespace) -> int:
    from evaluation.devices import detect

    devices = detect.devices(options.cache)
    if options.json:
        print(json.dumps({"devices": [to_json(device) for device in devices]}))
    else:
        print(detect.render(devices))
    return PASSED


def wait_for_request() -> int:
    """Import what judging takes and start a zygote, say so, then judge the request on stdin. The
    GPU is left alone until it has come: another judge may be measuring on it. What only some have
    need of is imported as long as there is none.
    """
    from evaluation.process.fork_server import ForkServer
    from evaluation.session import MeasurementSession  # noqa: F401 - what takes long to import

    with ForkServer() as fork_server:
        _line({"type": "ready"})
        if device_kind.gpu_vendor() in device_kind.JUDGED:
            fork_server.prepare("triton")
            if not select.select([sys.stdin], [], [], IDLE_SECONDS)[0]:
                fork_server.prepare("torch")
        return serve_request(sys.stdin.read(), fork_server)


def serve_request(text: str, fork_server: ForkServer | None = None) -> int:
    """Judge the one request of `text`; every answer is a JSON line."""
    try:
        data = _parsed(text)
        request = _request(data)
    except (RequestError, ValueError, KeyError, TypeError) as error:
        _line({"type": "error", "message": str(error)})
        return BAD_REQUEST
    try:
        if data.get("profile") is not None:
            return _emit_profile(request, str(data["profile"]))
        return _exit_code(_emit_lines(request, fork_server))
    except RequestError as error:
        _line({"type": "error", "message": str(error)})
        return BAD_REQUEST
    except Exception as error:
        _line({"type": "error", "message": f"{type(error).__name__}: {error}"})
        traceback.print_exc()
        return BROKEN


def _parsed(text: str) -> dict[str, Any]:
    if not text.strip():
        raise RequestError("no request on stdin; `python -m evaluation --help` lists the commands")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the request on stdin is not JSON: {error}") from error
    if not isinstance(data, dict) or not {"task", "files"} <= data.keys():
        raise RequestError('the request is a JSON object with at least "task" and "files"')
    return data


def _request(data: Mapping[str, Any]) -> pipeline.Request:
    operator, _, track = data["task"].partition("/")
    stage, scope = data.get("stage", "all"), data.get("scope", "final")
    if stage not in pipeline.STAGES or scope not in pipeline.SCOPES:
        raise RequestError(f"stage is one of {pipeline.STAGES}, scope one of {pipeline.SCOPES}")
    return pipeline.Request(
        task=load_task(Path(data.get("tasks_root") or TASKS), operator, track),
        files=dict(data["files"]),
        cache=_cache(data.get("cache") or ""),
        stage=stage,
        scope=scope,
        unconfined=_unconfined(),
    )


def _emit_lines(request: pipeline.Request, fork_server: ForkServer | None = None) -> Report:
    def emit(result: GateResult) -> None:
        _line({"type": "gate", **to_json(result)})

    report = pipeline.evaluate(request, emit, fork_server)
    _line({"type": "report", **to_json(report)})
    return report


def _emit_profile(request: pipeline.Request, case_name: str) -> int:
    """Answer with a profile of the seen case of that name; the largest where it is empty."""
    from evaluation import profiling

    try:
        case = profiling.chosen_case(request.task, case_name)
    except RequestError as error:
        found = profiling.Profile(case_name, message=str(error))
    else:
        found = profiling.profile_of(request, case)
    _line({"type": "profile", **to_json(found), "text": profiling.table(found)})
    return PASSED if found.kernels else NOT_PASSED


def _line(data: Mapping[str, Any]) -> None:
    print(json.dumps(data), flush=True)


def _exit_code(report: Report) -> int:
    if report.verdict is Verdict.PASSED:
        return PASSED
    return BROKEN if report.verdict is Verdict.BROKEN else NOT_PASSED


def _unconfined() -> bool:
    return os.environ.get("ARENA_UNCONFINED") == "1"


def read_sources(task: Task, paths: Sequence[Path]) -> dict[str, str]:
    """The files to judge by name; a single one may have any name and counts as the target file.

    Raises RequestError for one that cannot be read, or is of another language. What is not UTF-8,
    or too large, is left for the integrity gate to refuse: bad bytes become U+FFFD.
    """
    wanted = Path(task.target_file).suffix
    files: dict[str, str] = {}
    for path in paths:
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise RequestError(f"{path}: {error.strerror}; name the file to judge") from error
        if len(paths) == 1 and path.suffix != wanted:
            raise RequestError(f"{path}: {task.slug} takes a file that ends in {wanted}")
        name = task.target_file if len(paths) == 1 else path.name
        files[name] = content.decode("utf-8", errors="replace")
    return files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
