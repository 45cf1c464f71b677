"""The command `python -m evaluation generations`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evaluation.bench.devices import detect
from evaluation.device_kind import CPU, GPU, gpu_vendor
from evaluation.errors import RequestError
from evaluation.importers.generations import binding, packed, records, selection
from evaluation.importers.generations.campaign import Campaign, summary
from evaluation.importers.generations.collection import open_folder
from evaluation.importers.generations.generation import Generation
from evaluation.importers.generations.tasks import Suites
from evaluation.importers.generations.verdicts import Job
from evaluation.judge.answers import require_cache
from evaluation.judge.report_text import table
from evaluation.judge.request import SCOPES

ALL_CLAIMS = 0


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], cache: Callable[[str], Path]
) -> None:
    """Add the command to a parser."""
    purpose = "judge kernels that language models wrote for a suite, from folders of them"
    parser = commands.add_parser("generations", help=purpose, description=f"{purpose}.")
    parser.set_defaults(command=judge_generations)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--imported",
        type=Path,
        action="append",
        help="folder of imported suites, may be repeated; default: ARENA_HOME/imported",
    )
    parser.add_argument(
        "--suite", default="kernelbench", help="suite of a folder that no description knows"
    )
    parser.add_argument("--model", default="", help="only models that match this glob, or its name")
    parser.add_argument(
        "--claims",
        type=count,
        nargs="?",
        const=ALL_CLAIMS,
        metavar="N",
        help="only those with a claimed speedup, the largest first; at most N",
    )
    parser.add_argument(
        "--selection",
        type=Path,
        nargs="?",
        const=selection.DEFAULT,
        metavar="FILE",
        help="a rule that selects and orders; without a file that of the published campaign",
    )
    _add_judging(parser, cache)


def _add_judging(parser: argparse.ArgumentParser, cache: Callable[[str], Path]) -> None:
    """Add the options that say how the chosen generations are judged, and where they go."""
    parser.add_argument("--dry-run", action="store_true", help="count what can be judged, and why")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--kind", choices=(GPU, CPU), default=default_kind(), help="device kind")
    parser.add_argument("--scope", choices=SCOPES, default="final")
    parser.add_argument(
        "--limit",
        type=time_limit,
        default=60.0,
        metavar="SECONDS",
        help="time of one verdict; default: %(default)g",
    )
    parser.add_argument(
        "--within", type=time_limit, default=float("inf"), metavar="SECONDS", help="time of all"
    )
    parser.add_argument("--cache", type=cache, default="", help="folder of artefacts")
    parser.add_argument(
        "--export",
        type=Path,
        default=Path("generations.jsonl"),
        metavar="FILE",
        help="file of records, which is continued; default: %(default)s in the current folder",
    )
    parser.add_argument(
        "--earlier",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="records to continue, beside those in the exported file",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="also judge again what was over its time or inconclusive",
    )
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write all into a folder")


def time_limit(text: str) -> float:
    """Return a time limit. Raises ArgumentTypeError where nothing could be judged in it."""
    with suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")


def count(text: str) -> int:
    """Return a count. Raises ArgumentTypeError for a number below 1."""
    with suppress(ValueError):
        if (number := int(text)) >= 1:
            return number
    raise argparse.ArgumentTypeError(f"{text} is not a whole number of 1 or more")


def default_kind() -> str:
    """Return the kind of device that judges here."""
    return GPU if gpu_vendor() == "nvidia" else CPU


def judge_generations(options: argparse.Namespace) -> int:
    """Judge, count or pack the chosen generations."""
    end = time.monotonic() + options.within
    collections, found = read_folders(options)
    if not found:
        raise RequestError(
            f"{' '.join(map(str, options.folders))}: no generations; sources are named"
            " level_1_problem_19_sample_0_kernel.py, other forms are in docs/importing.md"
        )
    chosen = choose(options, found)
    if not chosen:
        raise RequestError(
            f"none of {len(found)} generations is chosen; see --model, --claims and --selection"
        )
    suites = suites_of(options, chosen)
    campaign = Campaign(chosen, suites, options.cache, options.kind, options.scope, options.limit)
    known = {each.collection for each in chosen}
    collections = {slug: facts for slug, facts in collections.items() if slug in known}
    if options.dry_run:
        return show_bindings(campaign, options.json)
    if options.pack:
        size = packed.write(options.pack, collections, chosen, suites)
        print(f"{options.pack}: {len(chosen)} generations, {size / 2**20:.1f} MiB; there:\n")
        print(packed.command(options.pack))
        return 0
    require_cache(options.cache)
    found_devices = detect.devices(options.cache, (options.kind,))
    devices = [each for each in found_devices if not each.unjudged]
    if not devices:
        raise RequestError(f"there is no {options.kind} here")
    devices = [each for each in devices if each.slug == devices[0].slug]
    heads = [records.read(path)[0] for path in sources_of_records(options)]
    began = min((str(each["started_at"]) for each in heads if each), default="")
    head = {
        "command": shlex.join(["python", "-m", "evaluation", *sys.argv[1:]]),
        "collections": collections,
        **({"started_at": began} if began else {}),
    }
    written = campaign.run(devices, options.export, earlier(options), head, end, options.again)
    statuses = Counter(str(each["judged"]["status"]) for each in written.records)
    print(f"{options.export}: {len(written.records)} of {len(chosen)}: {summary(statuses)}")
    recorded = {records.key_of(each) for each in written.records}
    return 0 if all(each.key in recorded for each in chosen) else 1


def read_folders(options: argparse.Namespace) -> tuple[dict[str, Any], list[Generation]]:
    """Return the facts of collections, and all generations. Raises RequestError."""
    collections: dict[str, Any] = {}
    found: list[Generation] = []
    for folder in options.folders:
        if packed.is_packed(folder):
            facts, generations = packed.read(folder)
            collections |= facts
            found += generations
        else:
            collection, tree = open_folder(folder, options.suite, options.model)
            collections[collection.slug] = collection.facts()
            found += collection.generations(tree)
    return collections, found


def choose(options: argparse.Namespace, found: Sequence[Generation]) -> list[Generation]:
    """Return the generations that the options choose, in their order. Raises RequestError."""
    chosen = [each for each in found if fnmatchcase(each.model, options.model or "*")]
    if options.selection:
        groups = selection.read_selection(options.selection)
        try:
            chosen = selection.select(groups, chosen)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            form = f"{options.selection}: {type(error).__name__}: {error}"
            raise RequestError(f"{form}; write it as {selection.DEFAULT}") from None
    if options.claims is not None:
        chosen = [each for each in chosen if each.claim.speedup is not None]
        chosen.sort(key=lambda each: -(each.claim.speedup or 0))
        chosen = chosen[: options.claims or len(chosen)]
    return list({each.key: each for each in chosen}.values())


def imported_folders(options: argparse.Namespace) -> list[Path]:
    """Return the folders of imported suites: those named, else packed ones, else the arena's."""
    if options.imported:
        return list(options.imported)
    beside = [folder / packed.IMPORTED for folder in options.folders if packed.is_packed(folder)]
    return beside or [Path(os.environ.get("ARENA_HOME") or ".arena") / "imported"]


def suites_of(options: argparse.Namespace, chosen: Sequence[Generation]) -> Suites:
    """Return the imported suites. Raises RequestError where no chosen generation is of one."""
    folders = imported_folders(options)
    suites = Suites(folders)
    if not (wanted := {each.suite for each in chosen}) & suites.names:
        suite = min(wanted)
        raise RequestError(
            f"{' '.join(map(str, folders))}: the suite {suite} is not there; run"
            f" `python -m evaluation import {suite} CHECKOUT --into {folders[0]}`"
        )
    return suites


def sources_of_records(options: argparse.Namespace) -> list[Path]:
    """Return the files whose records are continued."""
    return [*options.earlier, options.export]


def earlier(options: argparse.Namespace) -> list[records.Record]:
    """Return the records that are continued, of each generation the last one."""
    found: dict[tuple[object, ...], records.Record] = {}
    for path in sources_of_records(options):
        found |= {records.key_of(record): record for record in records.read(path)[1]}
    return list(found.values())


def show_bindings(campaign: Campaign, as_json: bool) -> int:
    """Print how many generations can be judged, by model, and why the others cannot."""
    work, without = campaign.work(set())
    with ProcessPoolExecutor() as pool:
        jobs: list[Job] = [each.job for each in work]
        results = list(pool.map(binding.check, jobs, chunksize=16))
    models: dict[tuple[str, str], Counter[bool]] = {}
    reasons: Counter[str] = Counter()
    found = [(each, campaign.suites.why_no_task(each)) for each in without]
    for each, result in zip(work, results, strict=True):
        found += [(generation, result.reason) for generation in each.generations]
    for generation, reason in found:
        binds = models.setdefault((generation.collection, generation.model), Counter())
        binds[not reason] += 1
        if reason:
            reasons[reason] += 1
    total = sum((binds for binds in models.values()), Counter())
    sources = {(each.suite, each.level, each.problem, each.sha256): why for each, why in found}
    different = Counter(sources.values())
    if as_json:
        print(json.dumps(_as_json(models, reasons, total, different), indent=1))
        return 0
    rows = [("collection", "model", "generations", "can be judged", "share")]
    rows += [(*key, *_counts(binds)) for key, binds in models.items()]
    rows.append(("all", "", *_counts(total)))
    judgeable = Counter(not why for why in different.elements())
    rows.append(("different sources", "", *_counts(judgeable)))
    print(table(rows, right_from=2))
    print()
    counted = reasons.most_common()
    print(table([("generations", "why not"), *((str(n), reason) for reason, n in counted)]))
    return 0


def _counts(binds: Counter[bool]) -> tuple[str, str, str]:
    return str(binds.total()), str(binds[True]), f"{100 * binds[True] / binds.total():.1f} %"


def _as_json(
    models: dict[tuple[str, str], Counter[bool]],
    reasons: Counter[str],
    total: Counter[bool],
    different: Counter[str],
) -> dict[str, Any]:
    rows = [
        {
            "collection": collection,
            "model": model,
            "generations": binds.total(),
            "judgeable": binds[True],
        }
        for (collection, model), binds in models.items()
    ]
    counts = {"generations": total.total(), "judgeable": total[True]}
    return {
        **counts,
        "models": rows,
        "reasons": dict(reasons.most_common()),
        "different": {
            "sources": different.total(),
            "judgeable": different.pop("", 0),
            "reasons": dict(different.most_common()),
        },
    }
