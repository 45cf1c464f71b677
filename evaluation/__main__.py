"""The command line of the judge.

    python -m evaluation judge rms_norm torch-to-cpp solution.cpp [--json] [--scope round|final]
                                    [--device 1]
    python -m evaluation profile rms_norm torch-to-cuda solution.cu [--case NAME] [--json]
    python -m evaluation admit rms_norm [torch-to-cpp]
    python -m evaluation import kernelbench ~/KernelBench --into .arena/imported
    python -m evaluation generations FOLDER --imported .arena/imported [--dry-run]
    python -m evaluation judge llama_rms_norm production model.py
    python -m evaluation judge sparse_product repository FOLDER
    python -m evaluation production compose|tasks|probe|fit|ceilings|describe
    python -m evaluation hardware [--json]
    python -m evaluation            one JSON request on stdin, JSON lines on stdout
    python -m evaluation wait       the same for each line of stdin: {"type": "ready"} says that it
                                    has imported, {"type": "end"} that a request is answered

Exit codes: 0 passed, 1 not passed, 2 bad arguments or task, 3 failure of the judge, 4
inconclusive. A profile exits with 0 if it has kernels, else with 1.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import select
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

# OpenMP threads of the judge must sleep, not spin, while a candidate is timed. Read when torch is
# imported.
os.environ["GOMP_SPINCOUNT"] = "0"

from evaluation import device_kind
from evaluation.bench.devices import detect
from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import COMPILERS, ForkServer
from evaluation.code.cache_folder import default_cache
from evaluation.device_kind import CPU, GPU
from evaluation.errors import Inconclusive, RequestError
from evaluation.importers import command as importing
from evaluation.importers.generations import commands as generations
from evaluation.judge import report_text
from evaluation.judge.answers import (
    BAD_REQUEST,
    BROKEN,
    INCONCLUSIVE,
    NOT_PASSED,
    PASSED,
    admitted,
    is_unconfined,
    judged,
    judged_in_lines,
    print_json,
    require_cache,
    stage_and_scope,
)
from evaluation.judge.commands import Commands
from evaluation.judge.kinds import kind_of, kinds
from evaluation.judge.request import SCOPES, TASKS, Emit, Request
from evaluation.types import GateResult, Profile, Report, to_json

# Functions import what takes seconds: torch, by way of sessions, profiles and admission.

IDLE_SECONDS = 3.0
"""After this time without a request, a waiting judge imports what only some requests need."""


def main(argv: Sequence[str]) -> int:
    """Run one command; see the module's docstring for the exit codes."""
    if not argv:
        return serve_request(sys.stdin.read())
    if argv == ["wait"]:
        return wait_for_requests()
    argv = with_track_apart(argv)
    options = parser().parse_args(argv)
    try:
        if importlib.util.find_spec("torch") is None:
            raise RequestError(
                f"{sys.executable} has no PyTorch; use the project's .venv/bin/python"
            )
        if options.command in (judge_sources, profile_sources, admit_tasks, show_hardware):
            require_cache(options.cache)
        if getattr(options, "device", None):
            restart_on_device(options, argv)
        return int(options.command(options))
    except RequestError as error:
        print(f"evaluation: {error}", file=sys.stderr)
        return BAD_REQUEST
    except BrokenPipeError:  # the reader of stdout has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except Inconclusive as error:
        print(f"evaluation: {error}", file=sys.stderr)
        return INCONCLUSIVE
    except Exception:
        traceback.print_exc()
        return BROKEN


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands; each sets `command` to its function."""
    root = argparse.ArgumentParser(
        prog="python -m evaluation", description="Judge kernels on this machine."
    )
    commands = root.add_subparsers(required=True, metavar="command")
    judge = commands.add_parser("judge", help="judge a submission through every gate")
    judge.set_defaults(command=judge_sources)
    profile = commands.add_parser("profile", help="profile the kernels of a submission on a GPU")
    profile.set_defaults(command=profile_sources)
    summary = "check a task: wrong implementations must fail, honest ones pass"
    admit = commands.add_parser(
        "admit", help=summary, description=f"{summary}. See tasks/README.md."
    )
    admit.set_defaults(command=admit_tasks)
    importing.add(commands)
    generations.add(commands, _cache)
    for kind in kinds():
        kind.commands.add(commands, _cache)
    hardware = commands.add_parser("hardware", help="list devices, measured peaks and isolation")
    hardware.set_defaults(command=show_hardware)
    for command in (judge, profile):
        command.add_argument("operator", help="such as rms_norm, or rms_norm/torch-to-cpp")
        command.add_argument("track", help="such as torch-to-cpp, unless named with the operator")
        command.add_argument(
            "sources", nargs="+", type=Path, help="the target file, and headers beside it"
        )
    judge.add_argument("--scope", choices=SCOPES, default="final", help="round: seen cases only")
    profile.add_argument("--case", default="", help="a seen case; default: the largest")
    admit.add_argument("operator", help="a folder of tasks, such as rms_norm, or one task")
    admit.add_argument("track", nargs="?", help="default: every track of the operator")
    admit.add_argument("--stream", action="store_true", help="print a JSON line for each step")
    admit.add_argument(
        "--self-test",
        action="store_true",
        help="also judge trivial submissions and mutants, if an operator has its own",
    )
    for command in (judge, profile, admit):
        command.add_argument("--tasks", type=Path, default=TASKS, help="the folder of operators")
        command.add_argument(
            "--device", help="number, slug or UUID of a device; default: the first"
        )
    for command in (judge, profile, admit, hardware):
        command.add_argument("--json", action="store_true", help="print JSON lines")
        command.add_argument(
            "--cache", type=_cache, default="", help="folder of artefacts and measured peaks"
        )
    return root


def with_track_apart(argv: Sequence[str]) -> list[str]:
    """Return arguments with the task `operator/track` of `judge` or `profile` as two of them."""
    if len(argv) > 1 and argv[0] in ("judge", "profile"):
        operator, _, track = argv[1].partition("/")
        if operator and track:
            return [argv[0], operator, track, *argv[2:]]
    return list(argv)


def _cache(path: str) -> Path:
    """Return the cache folder as an absolute path: compilers run in folders of their own."""
    return (Path(path) if path else default_cache()).absolute()


def restart_on_device(options: argparse.Namespace, argv: Sequence[str]) -> None:
    """Restart as a process that sees the requested GPU only: CUDA reads its environment once.

    Raises: RequestError.
    """
    device = detect.find(options.device, options.cache)
    if device.unjudged:
        raise RequestError(f"{device.slug}: {device.unjudged}")
    if device.environment:
        command = [sys.executable, "-m", "evaluation", *argv, "--device", device.uuid]
        os.execve(sys.executable, command, {**os.environ, **device.environment})


def judge_sources(options: argparse.Namespace) -> int:
    """Judge the named files, and show on a terminal which case is judged now."""
    commands, request = _request_of_files(options, options.scope)
    line = report_text.ProgressLine(sys.stderr)

    def judge(emit: Emit) -> Report:
        def emit_below(result: GateResult) -> None:
            line.clear()
            emit(result)

        try:
            return commands.judge(replace(request, progress=line.show), emit_below)
        finally:
            line.clear()

    quiet = options.json or not sys.stderr.isatty()
    run = partial(commands.judge, request) if quiet else judge
    return judged(run, options.json, commands.summary)


def profile_sources(options: argparse.Namespace) -> int:
    """Profile the named files on one seen case."""
    commands, request = _request_of_files(options)
    profile = commands.profile(request, options.case)
    print(json.dumps(to_json(profile)) if options.json else report_text.profile(profile))
    return PASSED if profile.kernels else NOT_PASSED


def admit_tasks(options: argparse.Namespace) -> int:
    """Check the tasks of an operator, or one of them; true also for what cannot be judged here."""
    name, _, track = options.operator.partition("/")  # as tasks are named elsewhere
    track, test = options.track or track, options.self_test
    commands = kind_of(track).commands
    device = _device(options)
    tasks = commands.to_admit(options.tasks, name, track, device)
    with ForkServer() as server:
        found = [
            admitted(
                task.slug,
                options,
                commands.unavailable(task, device),
                partial(commands.admit, task, options.cache, fork_server=server, self_test=test),
                commands.attempts(task, test),
            )
            for task in tasks
        ]
    return PASSED if all(found) else NOT_PASSED


def show_hardware(options: argparse.Namespace) -> int:
    """Print the devices of this machine."""
    devices = detect.devices(options.cache)
    data = {"devices": [to_json(device) for device in devices]}
    print(json.dumps(data) if options.json else report_text.devices(devices))
    return PASSED


def wait_for_requests() -> int:
    """Start a fork server and import the judge, report so, then judge each request on stdin.

    The GPU is not used before: another judge may be measuring on it. A failure of the judge ends
    it, so that the next request meets a new one.
    """
    with ForkServer() as fork_server:  # imports PyTorch at the same time
        importlib.import_module("evaluation.kinds.kernel.session")
        print_json("ready", {})
        prepare(fork_server, sys.stdin, device_kind.kind_of((GPU, CPU)))
        return serve_lines(sys.stdin, lambda line: serve_request(line, fork_server))


def prepare(
    fork_server: ForkServer, requests: TextIO, kind: str, seconds: float = IDLE_SECONDS
) -> None:
    """Have compilers imported for a kind of device, each but the first once it waited `seconds`."""
    for number, language in enumerate(COMPILERS[kind]):
        if number and select.select([requests], [], [], seconds)[0]:
            return
        fork_server.prepare(language)


def serve_lines(requests: TextIO, serve: Callable[[str], int]) -> int:
    """Serve each line until the end of the stream, or until the judge has failed."""
    for line in iter(requests.readline, ""):
        code = serve(line)
        print_json("end", {"code": code})
        if code == BROKEN:
            return BROKEN
    return PASSED


def serve_request(text: str, fork_server: ForkServer | None = None) -> int:
    """Judge the request in `text`; every answer is a JSON line."""
    try:
        data = _parse(text)
        commands, request = _request_of_json(data)
    except (RequestError, ValueError, KeyError, TypeError) as error:
        print_json("error", {"message": str(error)})
        return BAD_REQUEST
    try:
        if data.get("profile") is not None:
            return _emit_profile(commands, request, str(data["profile"]))
        return judged_in_lines(lambda emit: commands.judge(request, emit, fork_server))
    except RequestError as error:
        print_json("error", {"message": str(error)})
        return BAD_REQUEST
    except Exception as error:
        print_json("error", {"message": f"{type(error).__name__}: {error}"})
        traceback.print_exc()
        return BROKEN


def _parse(text: str) -> dict[str, Any]:
    if not text.strip():
        raise RequestError("no request on stdin; `python -m evaluation --help` lists the commands")
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the request on stdin is not JSON: {error}") from error
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("task"), str)
        or not isinstance(data.get("files"), dict)
    ):
        raise RequestError('the request is a JSON object with "task", a name, and "files", texts')
    return data


def _request_of_json(data: Mapping[str, Any]) -> tuple[Commands, Request]:
    name, _, track = data["task"].partition("/")
    stage, scope = stage_and_scope(data)
    commands = kind_of(track).commands
    request = Request(
        task=commands.find(Path(data.get("tasks_root") or TASKS), name, track),
        files=dict(data["files"]),
        cache=_cache(data.get("cache") or ""),
        arrived=Path(data["arrived"]) if data.get("arrived") else None,
        stage=stage,
        scope=scope,
        unconfined=is_unconfined(),
    )
    return commands, request


def _request_of_files(
    options: argparse.Namespace, scope: str = "final"
) -> tuple[Commands, Request]:
    commands = kind_of(options.track).commands
    task = commands.find(options.tasks, options.operator, options.track, _device(options))
    files = commands.read(task, options.sources)
    return commands, Request(task, files, options.cache, scope=scope, unconfined=is_unconfined())


def _device(options: argparse.Namespace) -> Device | None:
    return detect.find(options.device, options.cache) if options.device else None


def _emit_profile(commands: Commands, request: Request, case: str) -> int:
    """Answer with a profile of the seen case of that name, by default the largest."""
    try:
        profile = commands.profile(request, case)
    except RequestError as error:
        profile = Profile(case, message=str(error))
    print_json("profile", {**to_json(profile), "text": report_text.profile(profile)})
    return PASSED if profile.kernels else NOT_PASSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
