"""The command `python -m evaluation import`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from evaluation.errors import RequestError
from evaluation.importers import outcome
from evaluation.importers.checkout import Checkout
from evaluation.importers.importer import LICENCE, chosen_problems, import_suite
from evaluation.importers.suites import suites


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    summary = "import a public suite from a checkout, as tasks of its own catalogue"
    parser = commands.add_parser("import", help=summary, description=f"{summary}.")
    parser.set_defaults(command=import_tasks)
    parser.add_argument("suite", choices=suites(), metavar="SUITE", help=", ".join(suites()))
    parser.add_argument("checkout", type=Path, help="a checkout of the suite's repository")
    parser.add_argument(
        "--into", type=Path, required=True, help="folder of imported tasks: ARENA_HOME/imported"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GLOB",
        help="problems whose name or path matches; may be repeated, for those of any glob",
    )
    parser.add_argument("--table", type=Path, help="write what each problem came to as JSON")


def import_tasks(options: argparse.Namespace) -> int:
    """Import a suite, and print what each problem came to; 1 where none was imported."""
    suite = suites()[options.suite]
    if options.table and (options.table.is_dir() or not options.table.parent.is_dir()):
        raise RequestError(f"{options.table}: not a file in a folder that is there; name another")
    checkout = Checkout.open(options.checkout, suite.repository)
    if not checkout.licence():
        raise RequestError(
            f"{checkout.root}: no licence was found; commit one as LICENSE, to be shown"
        )
    chosen_problems(suite, checkout, options.only)  # before a licence that is long
    if not (options.into / suite.slug / LICENCE).is_file():
        print(f"{suite.title} comes under this licence:\n\n{checkout.licence().strip()}\n")
    found = import_suite(
        suite,
        checkout,
        options.into,
        options.only,
        lambda each: print(outcome.row(each), flush=True),
    )
    print(found.summary())
    if options.table:
        text = json.dumps(found.to_json(), indent=1, ensure_ascii=False)
        options.table.write_text(text + "\n", encoding="utf-8")
    imported = any(each.kind != outcome.REFUSED for each in found.outcomes)
    if not imported:
        print("nothing was imported", file=sys.stderr)
    return 0 if imported else 1
