"""The command `arena`: submit a kernel, watch a run, download its results, bring an agent."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from arena_client import Arena, ArenaError, sessions
from arena_client.agent import Agent, Program, prepare
from arena_client.types import Interval, RunDetail

PASSED, NOT_PASSED, USAGE, FAULT = 0, 1, 2, 3
COMMANDS: dict[str, tuple[str, ...]] = {
    "submit": ("--final", "--public", "--hardware", "--label", "--no-wait"),
    "watch": (),
    "download": (),
    "session": ("--source", "--hardware", "--public"),
    "agent": (
        "--folder", "--name", "--model", "--rounds", "--seconds", "--hardware", "--label",
        "--private",
    ),
    "completion": (),
}  # fmt: skip
_BASH = """\
_arena() {
    COMPREPLY=($(arena complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null))
}
complete -o default -F _arena arena"""
COMPLETIONS = {"bash": _BASH, "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}"}
"""Settings of a shell, for `eval "$(arena completion bash)"`."""
EVENTS_A_BATCH = 20
MAX_LABEL = 100
MAX_SOURCE_BYTES = 1_000_000
"""Limit of an arena on the source of a kernel."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0 if it passed, 1 if not, 2 for a wrong request, 3 for a fault."""
    words, options = _split(sys.argv[1:] if arguments is None else arguments)
    chosen = _parser().parse_args(words, argparse.Namespace(options=options))
    try:
        return int(chosen.command(Arena(chosen.url), chosen))
    except ArenaError as error:
        print(f"arena: {error}", file=sys.stderr)
        return USAGE if error.status < 500 else FAULT
    except OSError as error:
        if error.filename:  # a file of this machine
            print(f"arena: {error.filename}: {error.strerror}", file=sys.stderr)
            return USAGE
        print(f"arena: {error}. Is ARENA_URL the address of an arena?", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        return FAULT


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of `arena agent`, and those after `--`, which are its program's."""
    end = words.index("--") if "--" in words else len(words)
    return (words[:end], words[end + 1 :]) if "agent" in words[:end] else (words, [])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="arena",
        description="Submit kernels to an arena and read the results.",
        epilog="ARENA_URL names the arena, ARENA_TOKEN is a token from its page /account/.",
    )
    parser.add_argument("--url", default="", help="address of the arena, ARENA_URL by default")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    submit = commands.add_parser("submit", help="submit a kernel and watch it being judged")
    submit.add_argument("task", help="operator/track, such as rms_norm/cpp-to-cpp")
    submit.add_argument("file", type=Path, help="the source")
    submit.add_argument("--final", action="store_true", help="judge the held-out cases too")
    submit.add_argument("--public", action="store_true", help="show it to everyone")
    submit.add_argument("--hardware", help="slug of a device; the best by default")
    submit.add_argument("--label", default="", help="name of the kernel")
    submit.add_argument("--no-wait", action="store_true", help="print the run and return")
    submit.set_defaults(command=_submit)

    watch = commands.add_parser("watch", help="print a run as it happens")
    watch.add_argument("run", type=_run_id, help="its address, or its id, the last part of that")
    watch.set_defaults(command=_watch)

    download = commands.add_parser("download", help="write a run's sources, verdicts and events")
    download.add_argument("run", type=_run_id, help="its address or its id")
    download.add_argument("folder", type=Path, nargs="?", help="named for the run by default")
    download.set_defaults(command=_download)

    session = commands.add_parser("session", help="load a session of a harness as a run")
    session.add_argument("task", help="operator/track that it worked on")
    session.add_argument("file", type=Path, help="of Claude Code, Codex, or opencode export")
    session.add_argument("--source", type=Path, help="the kernel that it left, to be judged")
    session.add_argument("--hardware", help="slug of a device; the best by default")
    session.add_argument("--public", action="store_true", help="show it to everyone")
    session.set_defaults(command=_session)

    _add_agent(commands)

    completion = commands.add_parser("completion", help="print what completes arguments in a shell")
    completion.add_argument("shell", choices=COMPLETIONS, help="eval it in the shell's settings")
    completion.set_defaults(
        command=lambda arena, chosen: print(COMPLETIONS[chosen.shell]) or PASSED
    )
    complete = commands.add_parser("complete")  # without help: for the shell
    complete.add_argument("words", nargs=argparse.REMAINDER)
    complete.set_defaults(command=_complete)
    return parser


def _run_id(text: str) -> str:
    """Return the id of a run, also from the address that `submit` prints."""
    return text.rstrip("/").rpartition("/")[2]


def _add_agent(commands: Any) -> None:
    agent = commands.add_parser(
        "agent",
        help="let a program of this machine work on a task",
        epilog="Options of the program come last, after --.",
    )
    agent.add_argument("program", help="cursor, or any program; it gets the task as its last word")
    agent.add_argument("task")
    agent.add_argument("--folder", type=Path, help="where it works; named for the task by default")
    agent.add_argument("--name", default="", help="name of the agent; the program's by default")
    agent.add_argument("--model", default="", help="model that it calls")
    agent.add_argument("--rounds", type=int, help="checks that it may request")
    agent.add_argument("--seconds", type=int, help="time without that of verdicts")
    agent.add_argument("--hardware", help="slug of a device; the best by default")
    agent.add_argument("--label", default="", help="name of the run")
    agent.add_argument("--private", action="store_true", help="show it to you and staff alone")
    agent.set_defaults(command=_agent)


def _complete(arena: Arena, chosen: argparse.Namespace) -> int:
    """Print what the last of the words can be; nothing where the shell completes files."""
    *before, last = [word for word in chosen.words if word != "--"] or [""]
    for each in _candidates(arena, before, last):
        if each.startswith(last):
            print(each)
    return PASSED


def _candidates(arena: Arena, before: list[str], last: str) -> list[str]:
    if not before:
        return [*COMMANDS]
    if last.startswith("-"):
        return [*COMMANDS.get(before[0], ())]
    if before[-1] == "--hardware":
        return [device["slug"] for device in arena.hardware()]
    if before[0] == "completion":
        return [*COMPLETIONS]
    named = [word for word in before[1:] if not word.startswith("-")]
    place = {"submit": 0, "session": 0, "agent": 1}.get(before[0])
    return [task["slug"] for task in arena.tasks()] if place == len(named) else []


def _submit(arena: Arena, chosen: argparse.Namespace) -> int:
    source = _source(chosen.file)
    if source is None:
        return USAGE
    target = Path(arena.task(chosen.task)["public"]["target_file"])
    if chosen.file.suffix != target.suffix:
        print(
            f"arena: {chosen.file}: {chosen.task} takes a file that ends in {target.suffix}",
            file=sys.stderr,
        )
        return USAGE
    created = arena.submit(
        chosen.task,
        source,
        scope="final" if chosen.final else "round",
        visibility="public" if chosen.public else "owner",
        hardware=chosen.hardware,
        label=chosen.label or chosen.file.name,
    )
    print(f"{arena.url}/runs/{created['run']}/", flush=True)
    if waiting := created["waiting"]:
        print(waiting["reason"], flush=True)
    return PASSED if chosen.no_wait else _follow(arena, created["run"])


def _source(path: Path) -> str | None:
    """Return the text of a kernel; None, and a message, for one that an arena would refuse."""
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        print(f"arena: {path} cannot be read: {error.strerror}", file=sys.stderr)
        return None
    except UnicodeDecodeError:
        print(f"arena: {path} is not text in UTF-8; submit the source", file=sys.stderr)
        return None
    if problem := _problem(source):
        print(f"arena: {path} {problem}", file=sys.stderr)
        return None
    return source


def _session(arena: Arena, chosen: argparse.Namespace) -> int:
    """Load a session as a run of an agent of one's own, with its kernel as the only round."""
    source = _source(chosen.source) if chosen.source else ""
    if source is None:
        return USAGE
    try:
        found = sessions.read(chosen.file)
    except OSError as error:
        print(f"arena: {chosen.file} cannot be read: {error.strerror}", file=sys.stderr)
        return USAGE
    except sessions.UnknownSession as error:
        print(f"arena: {error}", file=sys.stderr)
        return USAGE
    run = arena.start(
        chosen.task,
        found.harness,
        model=found.model,
        hardware=chosen.hardware,
        label=chosen.file.name[:MAX_LABEL],
        visibility="public" if chosen.public else "owner",
    )
    print(f"{arena.url}/runs/{run.id}/", flush=True)
    for begin in range(0, len(found.events), EVENTS_A_BATCH):
        run.send(found.events[begin : begin + EVENTS_A_BATCH])
    if source:
        run.check(source, note=f"from {chosen.file.name}"[:MAX_LABEL])
    run.finish()
    return _follow(arena, run.id) if source else PASSED


def _problem(source: str) -> str:
    """Return why an arena would refuse a source; empty when it would not."""
    if not source.strip():
        return "is empty; write the kernel into it"
    size = len(source.encode())
    if size > MAX_SOURCE_BYTES:
        return f"has {size:,} bytes; the limit is {MAX_SOURCE_BYTES:,} bytes"
    return ""


def _watch(arena: Arena, chosen: argparse.Namespace) -> int:
    return _follow(arena, chosen.run)


def _download(arena: Arena, chosen: argparse.Namespace) -> int:
    for path in arena.download(chosen.run, chosen.folder or Path(chosen.run)):
        print(path)
    return PASSED


def _agent(arena: Arena, chosen: argparse.Namespace) -> int:
    """Let a program work on a task in a folder of its own, and print the final verdict."""
    program = Program.of(chosen.program, chosen.options, chosen.model)
    if not shutil.which(program.words[0]):
        print(f"arena: there is no program {program.words[0]}", file=sys.stderr)
        return USAGE
    task = arena.task(chosen.task)
    folder = (chosen.folder or Path(chosen.task.replace("/", "-"))).absolute()
    if (folder.exists() and not folder.is_dir()) or (folder.is_dir() and any(folder.iterdir())):
        print(f"arena: {folder} is not an empty folder; choose another --folder", file=sys.stderr)
        return USAGE
    folder.mkdir(parents=True, exist_ok=True)
    limits = {"rounds": chosen.rounds, "seconds": chosen.seconds}
    run = arena.start(
        chosen.task,
        chosen.name or program.name,
        model=chosen.model,
        hardware=chosen.hardware,
        budget={name: n for name, n in limits.items() if n is not None},  # type: ignore[arg-type]
        label=chosen.label,
        visibility="owner" if chosen.private else "public",
    )
    print(f"{arena.url}/runs/{run.id}/", flush=True)
    agent = Agent(run, program, prepare(folder, task))  # a refused start leaves no file
    begun = run.send()
    try:
        agent.work(begun["rounds_left"])
    except KeyboardInterrupt:
        print("The program is ended; its best round gets the final verdict.", flush=True)
    agent.finish()
    return _follow(arena, run.id, after=arena.run(run.id)["last_seq"])


def _follow(arena: Arena, run_id: str, after: int = 0) -> int:
    """Print the events of a run above `after` until it ends, then its verdict."""
    try:
        for event in arena.watch(run_id, after):
            if line := line_of(event):
                print(line, flush=True)
        run = arena.run(run_id)
    except (OSError, TimeoutError):
        print(f"arena: no connection; later: arena watch {run_id}", file=sys.stderr)
        raise
    print(_printable(_result(run)))
    if run["status"] == "broken":
        return FAULT
    return PASSED if run["status"] == "passed" else NOT_PASSED


def line_of(event: dict[str, Any]) -> str:
    """Return one line for an event; empty for one that a terminal does not show."""
    text = _printable(_text(event["kind"], event["body"]))
    return text and f"{event['t_ms'] / 1000:8.1f}s  {text}"


def _printable(text: str) -> str:
    """Return a text without what a terminal would obey: others' agents have written it."""
    return "".join(sign for sign in text if sign in "\n\t" or sign.isprintable())


def _text(kind: str, body: dict[str, Any]) -> str:
    match kind:
        case "status":
            return _first_line(": ".join(filter(None, (body["state"], body["reason"]))))
        case "span_begin" if body["span_kind"] == "submission":
            return f"round {body['round']}  {body['note']}".rstrip()
        case "compiler_output" if not body["ok"]:
            return f"{body['tool']} failed:\n{body['text'].rstrip()}"
        case "gate_result":
            why = " ".join(filter(None, (body["reason"], body["message"])))
            return f"  {body['gate']:<15} {body['verdict']}  {why}".rstrip()
        case "metric" if body["name"] == "case_speedup" and body["value"] is not None:
            return f"    {body['case']:<40} {body['value']:.2f}x"
        case "message" if body["role"] == "assistant":
            return f"agent: {_first_line(body['text'])}"
        case "tool_call":
            return f"agent: {body['tool']}"
        case "log" | "note" | "limit" | "interrupt":
            return _first_line(body["text"])
        case "error":
            return f"error: {_first_line(body['message'])}"
    return ""


def _first_line(text: str, width: int = 160) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first[:width]} …" if rest or len(first) > width else first


def _result(run: RunDetail) -> str:
    """Return the result of a run in one line; its last event gave the reason."""
    words = [f"{run['task']} on {run['hardware']}: {run['status']}"]
    words += [
        f"{_speedup(found)} on {name} cases"
        for name, found in (("public", run["seen"]), ("held-out", run["unseen"]))
        if found
    ]
    return ", ".join(words)


def _speedup(found: Interval) -> str:
    low, high = found["low"], found["high"]
    interval = f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""
    return f"{found['speedup']:.2f}x{interval}"


if __name__ == "__main__":
    sys.exit(main())
