"""Command line of the launcher, the catalogue sync and the workers.

python -m runners                               the whole arena on this machine
python -m runners sync                          tasks and agents into the catalog
python -m runners worker --queues build         a worker for these queues
python -m runners worker --hardware [--device]  a worker for all GPUs of this machine, or for one
python -m runners worker --drain                let the workers of this machine take nothing new
"""

# Imports in functions: Django's models can be imported only after `django.setup`.

import argparse
import os
import sys
from collections.abc import Sequence

if sys.version_info < (3, 11):  # noqa: UP036  (an older Python reads this file too)
    sys.exit(f"arena: Python {sys.version.split()[0]} is too old: install Python 3.11 or newer.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of the arguments, by default those of the process."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    return int(options.command(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runners", description="Run the arena.")
    parser.set_defaults(command=_arena)
    commands = parser.add_subparsers(metavar="command")
    sync = commands.add_parser("sync", help="read tasks and agents into the catalog")
    sync.add_argument("--force", action="store_true", help="also where another checkout does it")
    sync.set_defaults(command=_sync)
    worker = commands.add_parser("worker", help="execute messages of queues")
    queues = worker.add_mutually_exclusive_group(required=True)
    queues.add_argument("--queues", nargs="+", metavar="QUEUE", help="such as build, agents")
    queues.add_argument("--hardware", action="store_true", help="the queues of the devices here")
    queues.add_argument(
        "--drain", action="store_true", help="let the workers here take nothing new, and wait"
    )
    queues.add_argument("--resume", action="store_true", help="let drained workers here go on")
    worker.add_argument(
        "--device", help="one device by slug, number or UUID; default: all GPUs, else the CPU"
    )
    worker.add_argument("--threads", type=int, default=1, help="parallel messages (default 1)")
    worker.add_argument("--nice", type=int, default=0, help="niceness of the process (default 0)")
    worker.add_argument(
        "--grace",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="at SIGTERM take nothing new, and give current work so long (default 0)",
    )
    worker.add_argument(
        "--max-seconds",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="end by itself after so long, such as before the end of a job of Slurm",
    )
    worker.add_argument(
        "--until-idle",
        type=float,
        nargs="?",
        const=60.0,
        default=float("inf"),
        metavar="SECONDS",
        help="end by itself once there was no work for so long (default 60)",
    )
    worker.set_defaults(command=_worker)
    return parser


def _arena(options: argparse.Namespace) -> int:
    from runners.launcher import launch

    return launch()


def _sync(options: argparse.Namespace) -> int:
    import django

    django.setup()
    from arena.errors import Conflict
    from runners.catalog import sync

    try:
        report = sync(options.force)
    except Conflict as refused:
        print(f"sync: {refused.text}", file=sys.stderr)
        return 1
    for change in ("added", "changed", "missing", "curated"):
        for slug in getattr(report, change):
            print(f"{change}: {slug}")
    for change, agents in (("added", report.added_agents), ("missing", report.missing_agents)):
        for slug in agents:
            print(f"{change}: agent {slug}")
    for problem in report.problems:
        print(problem, file=sys.stderr)
    return 1 if report.problems else 0


def _worker(options: argparse.Namespace) -> int:
    import django

    django.setup()
    if options.drain or options.resume:
        from runners.worker.draining import drain, resume

        return drain() if options.drain else resume()
    from arena import telemetry
    from runners.process.account import BadAccount
    from runners.worker import judge_user
    from runners.worker.devices import NoHardware
    from runners.worker.worker import Duty, hardware_duties, serve

    telemetry.start()
    os.nice(options.nice)
    try:
        judge_user.prepare()
        if options.hardware:
            duties = hardware_duties(options.device)
        else:
            duties = [Duty(tuple(options.queues), options.threads)]
        ends = {"seconds": options.max_seconds, "idle_seconds": options.until_idle}
        serve(*duties, grace=options.grace, **ends)
    except (NoHardware, BadAccount) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
