"""Commands of production tasks.

python -m evaluation judge llama_rms_norm production model.py
python -m evaluation production compose llama llama_rms_norm=norm.py llama_mlp=mlp.py
python -m evaluation production tasks
python -m evaluation production probe [NAME ...] [--write FILE]
python -m evaluation production fit NAME [--kind gpu] [--write]
python -m evaluation production ceilings TASK
python -m evaluation production describe [NAME ...] [--write] [--again]
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU, GPU, kind_of
from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.judge.answers import (
    NOT_PASSED,
    PASSED,
    is_unconfined,
    judged,
    source_of,
)
from evaluation.judge.commands import Commands
from evaluation.judge.request import MAX_BYTES, SCOPES, Emit, Request
from evaluation.kinds.module import judge as production_judge
from evaluation.kinds.module import limits
from evaluation.kinds.module.architectures import (
    FOLDER,
    TRACK,
    Architecture,
    ModuleTask,
    architectures,
    find_task,
    not_admitted,
)
from evaluation.kinds.module.composition import COMPOSITION, Part, parts_of
from evaluation.sandboxed.model import phases
from evaluation.types import Report

DEVICE = {CPU: "cpu", GPU: "cuda"}
"""PyTorch's name of each kind of device."""


def add_parser(commands: Any, cache: Callable[[str], Path]) -> None:
    """Add the command `production` and its actions."""
    command = commands.add_parser(TRACK, help="production tasks: list, probe, fit, describe")
    actions = command.add_subparsers(required=True, metavar="action")
    composed = actions.add_parser("compose", help="judge files for several modules in one model")
    composed.set_defaults(command=judge_together)
    composed.add_argument("architecture", help="such as llama")
    composed.add_argument("files", nargs="+", metavar="MODULE=FILE", help="a task and its file")
    composed.add_argument(
        "--scope", choices=SCOPES, default="final", help="round: nothing is compiled"
    )
    composed.add_argument("--device", help="number, slug or UUID of a device; default: the first")
    listed = actions.add_parser("tasks", help="list production tasks and architectures")
    listed.set_defaults(command=show_tasks)
    probed = actions.add_parser("probe", help="build and run architectures on this machine")
    probed.add_argument("names", nargs="*", help="default: every architecture")
    probed.add_argument("--write", type=Path, help="a JSON file for the result")
    probed.add_argument("--no-graphs", action="store_true", help="do not trace graphs, in a third")
    probed.set_defaults(command=probe_architectures)
    fit = actions.add_parser("fit", help="fit the error limits of architectures")
    fit.add_argument("names", nargs="+")
    fit.add_argument(
        "--kind", choices=(CPU, GPU), default=CPU, help="the device whose size of the model is run"
    )
    fit.add_argument("--write", action="store_true", help="keep the limits in the checkout")
    fit.set_defaults(command=fit_limits)
    ceilings = actions.add_parser("ceilings", help="measure the model with a module for free")
    ceilings.add_argument("names", nargs="+", help="tasks, such as llama_rms_norm")
    ceilings.set_defaults(command=show_ceilings)
    described = actions.add_parser("describe", help="describe tasks for those who solve them")
    described.add_argument("names", nargs="*", help="default: all with fitted error limits")
    described.add_argument("--write", action="store_true", help="keep them in the checkout")
    described.add_argument("--again", action="store_true", help="also those that are described")
    described.add_argument("--no-ceilings", action="store_true", help="measure no ceilings")
    described.set_defaults(command=describe_tasks)
    for action in (composed, listed, probed, fit, ceilings, described):
        action.add_argument("--json", action="store_true", help="print JSON")
        action.add_argument("--cache", type=cache, default="", help="folder of artefacts")


@dataclass(frozen=True)
class Candidacy:
    """An architecture, and the one task of it that is judged; None for a composition."""

    architecture: Architecture
    task: ModuleTask | None

    @property
    def name(self) -> str:
        return self.task.name if self.task else self.architecture.name


def judge_parts(
    architecture: Architecture,
    parts: Sequence[Part],
    request: Request,
    emit: Emit,
    fork_server: ForkServer | None = None,
) -> Report:
    kind = kind_of((GPU, CPU))
    return production_judge.judge(
        architecture,
        parts,
        kind,
        request.cache,
        phases.extent(kind, request.final, architecture.name, architecture.ranks),
        emit,
        fork_server,
        request.unconfined,
        stage=request.stage,
        final=request.final,
    )


def judge_together(options: argparse.Namespace) -> int:
    """Judge files for several modules of an architecture in one model."""
    architecture = _architecture(options.architecture)
    pairs = [each.partition("=") for each in options.files]
    for name, _, path in pairs:
        if not path:
            raise RequestError(f"{name}: name a module and its file, such as llama_mlp=mlp.py")
    sources = [(name, source_of(Path(path), MAX_BYTES)) for name, _, path in pairs]
    parts = parts_of(architecture, sources)
    request = Request(None, {}, options.cache, scope=options.scope, unconfined=is_unconfined())
    judge = functools.partial(judge_parts, architecture, parts, request)
    return judged(judge, options.json, _summary)


def _summary(report: Report) -> str:
    """Return the funnel and the seconds of a report."""
    lines = [
        f"\n{report.task}: {report.verdict}" + (f" ({report.reason})" if report.reason else "")
    ]
    detail = report.gates[-1].detail
    if "deployed" in detail:
        deployed, rows = detail["deployed"], []
        alone = {"": detail["isolated"]} if len(detail["modules"]) == 1 else detail["modules"]
        for name, speedup in alone.items():
            text = f"{speedup:.2f}x" if speedup else "not taped"
            rows.append((f"alone, {name}" if name else "alone", text))
        if detail["predicted"]:
            rows.append(("predicted", f"{detail['predicted']:.2f}x by Amdahl's law"))
        for phase, interval in detail["ceilings"].items():
            rows.append((f"ceiling, {phase}", f"{interval['speedup']:.2f}x"))
        for phase, best in detail["best"].items():
            rows.append(
                (phase, f"{best['speedup']['speedup']:.2f}x, {best['candidate']} against "
                        f"{best['baseline']}")
            )  # fmt: skip
        low, high = deployed["low"], deployed["high"]
        rows.append(("deployed", f"{deployed['speedup']:.2f}x [{low:.2f}, {high:.2f}]"))
        if detail["drop"]:
            rows.append(("drop", detail["drop"]))
        if detail["unexplained"]:
            phases = ", ".join(detail["unexplained"])
            rows.append(("unexplained", f"{phases}: more than the module alone explains"))
        candidate, baseline = (detail["reported"][mode] for mode in ("candidate", "library"))
        rows.append(("reported", f"{candidate['graphs']} graphs and {candidate['graph_breaks']} "
                                 f"breaks; the library's {baseline['graphs']} and "
                                 f"{baseline['graph_breaks']}"))  # fmt: skip
        lines.append(report_text.table(rows))
    elif detail.get("drop"):
        causes = ", ".join(detail["caused_by"])
        lines.append(report_text.table([("drop", detail["drop"]), ("caused by", causes)]))
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items())
    lines.append(report_text.table([("seconds", seconds)]))
    return "\n".join(lines)


def show_tasks(options: argparse.Namespace) -> int:
    """Print the tasks of every architecture."""
    found = architectures()
    if options.json:
        data = [
            {**asdict(task), "architecture": a.name, "family": a.family}
            for a in found.values()
            for task in a.tasks
        ]
        print(json.dumps(data))
        return PASSED
    rows = [("task", "architecture", "family", "category", "replaces", "error limits")]
    rows += [
        (
            task.name,
            a.title,
            a.family,
            task.category,
            task.module.rpartition(".")[2],
            ", ".join(limits.limited_kinds(a.name)) or "not fitted",
        )
        for a in found.values()
        for task in a.tasks
    ]
    print(report_text.table(rows))
    return PASSED


def _named(names: list[str]) -> list[str]:
    return [_architecture(name).name for name in names] or list(architectures())


def _architecture(name: str, folder: Path = FOLDER) -> Architecture:
    known = architectures(folder)
    if name not in known:
        raise RequestError(f"{name}: no such architecture; there are: {', '.join(known)}")
    return known[name]


def probe_architectures(options: argparse.Namespace) -> int:
    """Probe architectures and print one line for each."""
    from evaluation.kinds.module import probe

    results = []
    for name in _named(options.names):
        found = probe.probe(architectures()[name], CPU, graphs=not options.no_graphs)
        results.append(probe.to_json(found))
        if options.write:
            _merge(options.write, results)
        rebuilt = sum(module.rebuilds for module in found.modules)
        decode = (
            "" if found.decode_error is None else f", cached decode {found.decode_error:.0e} off"
        )
        breaks = "" if found.graphs is None else f", {found.graphs} graphs"
        line = found.error or (
            f"{found.parameters:,} parameters, forward {'finite' if found.finite else 'NOT FINITE'}"
            f"{decode}{breaks}, {rebuilt} of {len(found.modules)} classes rebuilt bit for bit"
        )
        print(json.dumps(results[-1]) if options.json else f"{name:24} {line}", flush=True)
    failed = [result["name"] for result in results if result["error"] or not result["finite"]]
    print(f"{len(results) - len(failed)} of {len(results)} work", file=sys.stderr)
    return NOT_PASSED if failed else PASSED


def _merge(path: Path, results: list[dict[str, Any]]) -> None:
    """Write results to a file, in place of earlier ones of the same architectures."""
    from evaluation.kinds.module import probe

    earlier = json.loads(path.read_text())["architectures"] if path.is_file() else []
    merged = {result["name"]: result for result in (*earlier, *results)}
    kept = [merged[name] for name in sorted(merged) if name in architectures()]
    lines = ",\n".join(f"  {json.dumps(result)}" for result in kept)
    versions = json.dumps(probe.versions())
    path.write_text(f'{{"versions": {versions},\n "architectures": [\n{lines}\n]}}\n')


def fit_limits(options: argparse.Namespace) -> int:
    """Fit error limits; fails where a mutant keeps them or a required one cannot be made.

    Raises: RequestError where a GPU is asked for, and there is none.
    """
    from evaluation.kinds.module.fit import fit

    if options.kind == GPU and kind_of((GPU, CPU)) != GPU:
        raise RequestError("no GPU is here, so no error limits can be fitted on one")
    missed = False
    for name in _named(options.names):
        try:
            found = fit(architectures()[name], options.kind, DEVICE[options.kind])
        except Exception as error:  # whatever a library raises is the finding
            missed = True
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        data = {
            **{key: round(value, 3) for key, value in asdict(found.limits).items()},
            "honest": {key: _rounded(value) for key, value in found.honest.items()},
            "mutants": {key: _rounded(value) for key, value in found.mutants.items()},
        }
        print(f"{name}: {json.dumps(data)}", flush=True)
        if found.missed:
            missed = True
            print(f"{name}: within the limits: {', '.join(found.missed)}", file=sys.stderr)
        elif found.missing:
            missed = True
            print(f"{name}: cannot be made: {', '.join(found.missing)}", file=sys.stderr)
        elif options.write:
            limits.keep(name, options.kind, data)
    return NOT_PASSED if missed else PASSED


def _rounded(ratios: object) -> list[float]:
    return [round(value, 2) for value in vars(ratios).values()]


def show_ceilings(options: argparse.Namespace) -> int:
    """Measure the ceilings of tasks in eager, and print one line for each phase."""
    from evaluation.kinds.module.bounds import ceiling
    from evaluation.kinds.module.session import LiveSession
    from evaluation.sandboxed.model.phases import Regime

    kind = kind_of((GPU, CPU))
    for name in options.names:
        architecture, task = find_task(name)
        if why := architecture.missing():
            raise RequestError(f"{name}: {why}")
        with (
            ForkServer() as server,
            LiveSession(architecture, [task], kind, server, options.cache) as session,
        ):
            for phase in architecture.phases:
                found = ceiling(session, phase, Regime.EAGER)
                data = {"task": name, "phase": phase, "regime": "eager", **asdict(found)}
                print(
                    json.dumps(data)
                    if options.json
                    else f"{name} {phase}: {found.speedup:.3f}x [{found.low:.3f}, {found.high:.3f}]"
                )
    return PASSED


def describe_tasks(options: argparse.Namespace) -> int:
    """Describe the tasks of architectures, one after the other; what is written stays written."""
    from evaluation.kinds.module.description import descriptions
    from evaluation.kinds.module.description.describe import describe

    names = _named(options.names) if options.names else list(limits.all_limits())
    failed = False
    for name in names:
        architecture = architectures()[name]
        known = descriptions.read().get(name, {})
        current = known.get("hash") == architecture.hash
        measured = options.no_ceilings or all(
            t["ceilings"] for t in known.get("tasks", {}).values()
        )
        if current and measured and options.write and not options.again:
            print(f"{name}: is described", flush=True)
            continue
        log = functools.partial(print, flush=True)
        try:
            found = describe(architecture, options.cache, not options.no_ceilings, log)
        except Exception as error:  # whatever a library raises is the finding
            failed = True
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if options.json:
            print(json.dumps({"name": name, **found}), flush=True)
        if options.write:  # read again: another process may have described meanwhile
            descriptions.write({**descriptions.read(), name: found})
    return NOT_PASSED if failed else PASSED


class ModuleCommands(Commands):
    PLURAL = "modules of live models"

    def add(self, commands: Any, cache: Callable[[str], Path]) -> None:
        add_parser(commands, cache)

    def find(self, root: Path, name: str, track: str, device: Device | None = None) -> Candidacy:
        """Return a task, or for `composition` an architecture. Raises RequestError."""
        if track == COMPOSITION:
            return Candidacy(_architecture(name, root / TRACK), None)
        return Candidacy(*find_task(name, root / TRACK))

    def read(self, task: Candidacy, paths: Sequence[Path]) -> dict[str, str]:
        """Return the file to judge. Raises RequestError."""
        if len(paths) != 1 or task.task is None:
            raise RequestError(f"{task.name}: a production task takes one file")
        return {task.task.target_file: source_of(paths[0], MAX_BYTES)}

    def judge(self, request: Request, emit: Emit, fork_server: ForkServer | None = None) -> Report:
        """Judge a file, or one for each of several modules. Raises RequestError."""
        architecture, task = request.task.architecture, request.task.task
        if task:
            return judge_parts(
                architecture, (Part(task, request.files),), request, emit, fork_server
            )
        sources = [(file.removesuffix(".py"), source) for file, source in request.files.items()]
        parts = parts_of(architecture, sources)
        return judge_parts(architecture, parts, request, emit, fork_server)

    def summary(self, report: Report) -> str:
        return _summary(report)

    def to_admit(self, root: Path, name: str, track: str, device: Device | None) -> list[Any]:
        raise RequestError(not_admitted(name))


COMMANDS = ModuleCommands()
