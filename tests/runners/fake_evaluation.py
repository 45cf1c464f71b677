"""A stand-in for the judge's process, for what the runners must do whatever a judge says or does.

It honours the protocol of `python -m evaluation` and judges by what the source tells it in words:
`speedup 1.5`, `within 0.9`, `wrong`, `does not compile`, `hangs`, `breaks`, `breaks once`,
`reads its task` (a folder with a `task.toml`), `busy` (in rounds), `busy at once`
(before it is known to be right), `always busy`,
`waits` (for the file `go` in its cache), `meets another`, `is built beside`, `no device`,
`no profiler`, `spoils a profile`. It has the devices that
`devices.json` of its cache lists, else a processor, and notes in `turns` what it did when, where it
was told to see which GPU.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.time()  # waits: a name for this process, in order
MAX_WAIT_SECONDS = 120
DEVICE = {
    "slug": "fake-cpu", "kind": "cpu", "name": "Fake", "vendor": "none", "arch": "none",
    "queue": "hw.fake-cpu", "peaks": {}, "isolation": {}, "fingerprint": {},
}  # fmt: skip


def line(kind: str, **body: Any) -> None:
    print(json.dumps({"type": kind, **body}), flush=True)


def gate(
    name: str, verdict: str = "passed", reason: str | None = None, **more: Any
) -> dict[str, Any]:
    body = {
        "gate": name, "verdict": verdict, "reason": reason, "message": "", "rule": "", "passed": 0,
        "total": 0, "duration_ms": 1.0, "detail": {}, "private": {}, "compiler": [],
        "measurements": [], **more,
    }  # fmt: skip
    line("gate", **body)
    return body


def measurement(split: str, speedup: float, half_width: float) -> dict[str, Any]:
    return {
        "case": f"{split} case", "split": split, "kind": "nominal", "dtype": "float32",
        "symbols": {"rows": 4}, "baseline": "eager", "candidate_us": 10 / speedup,
        "baseline_us": 10.0, "speedup": speedup, "low": speedup - half_width,
        "high": speedup + half_width, "gbps": 1.0, "tflops": 0.1, "roofline_share": 0.5,
        "warm_us": None, "blocks": 5, "noisy": False,
    }  # fmt: skip


def judge(request: dict[str, Any]) -> int:
    source = "\n".join(request["files"].values())
    if "profile" in request:
        return profile(source, request["profile"])
    if "reads its task" in source and not task_file(request).is_file():
        sys.exit(3)
    gates = [gate("integrity")]
    if "does not compile" in source:
        said = {
            "tool": "g++", "arch": "x86", "ok": False, "duration_ms": 1.0,
            "text": "k.cpp:1: error: expected ';'", "diagnostics": [], "resources": {},
            "listings": {},
        }  # fmt: skip
        gates.append(gate("compile", "failed", "BUILD_ERROR", compiler=[said], message="no build"))
        return report(gates, request)
    gates.append(gate("compile"))
    note(request, "begins")
    if request["stage"] == "build":
        if "is built beside" in source:
            build_beside(Path(request["cache"]))
        note(request, "ends")
        return report(gates, request)
    misbehave(source, Path(request["cache"]))
    note(request, "ends")
    if "no device" in source:
        gates.append(gate("correctness", "skipped", "NO_DEVICE", message="there is no GPU"))
        return report(gates, request)
    busy = "processor busy 74 % of the time: inconclusive"
    if "busy at once" in source:
        gates.append(gate("correctness", "inconclusive", "MACHINE_BUSY", message=busy))
        return report(gates, request)
    if "wrong" in source:
        gates.append(gate("correctness", "failed", "WRONG_VALUES", message="case nominal", total=3))
        return report(gates, request)
    gates.append(gate("correctness", passed=3, total=3))
    if "busy" in source and ("always busy" in source or request["scope"] == "round"):
        gates.append(gate("performance", "inconclusive", "MACHINE_BUSY", message=busy))
        return report(gates, request)
    speedup, half_width = number("speedup", source, 1.0), number("within", source, 0.01)
    seen, unseen = (measurement(split, speedup, half_width) for split in ("seen", "unseen"))
    gates.append(gate("performance", measurements=[seen]))
    if request["scope"] == "final":
        private = {"duration_ms": 1.0}
        gates.append(
            gate("generalization", measurements=[unseen], duration_ms=0.0, private=private)
        )
    interval = {"speedup": speedup, "low": speedup - half_width, "high": speedup + half_width}
    return report(gates, request, interval)


def task_file(request: dict[str, Any]) -> Path:
    return Path(request["tasks_root"], request["task"].partition("/")[0], "task.toml")


def profile(source: str, case: str) -> int:
    if "no profiler" in source:
        message = "no profiler for the CPU here: needs a GPU"
        body = {"case": case, "tool": "", "kernels": [], "message": message, "text": message}
        line("profile", reason="NO_DEVICE", **body)
        return 1
    if "spoils a profile" in source:
        sys.exit(3)
    kernel = {
        "name": "k<float>", "calls": 1, "duration_us": 12.5, "bandwidth_share": 0.83,
        "compute_share": 0.4, "occupancy": 0.69, "registers": 39.0, "shared_bytes": 1088.0,
        "grid": "64", "block": "256", "stalls": {"long scoreboard": 0.5},
    }  # fmt: skip
    told = case or "largest"
    body = {"case": told, "tool": "fake 1", "kernels": [kernel], "message": "", "reason": None}
    line("profile", text=f"case {told}: k<float> 12.50", **body)
    return 0


def number(word: str, source: str, default: float) -> float:
    found = re.search(rf"{word} ([\d.]+)", source)
    return float(found[1]) if found else default


def misbehave(source: str, cache: Path) -> None:
    if "hangs" in source:
        signal.pause()
    if "waits" in source:
        wait_for((cache / "go").exists)
    if "is built beside" in source:
        wait_for((cache / "built-beside").exists)
    if "meets another" in source:
        wait_for(lambda: (cache / "met").exists() or len(at_work(cache, "measure")) > 1)
        (cache / "met").touch()
    if "breaks once" in source:
        cache.mkdir(parents=True, exist_ok=True)
        try:
            (cache / "broke").touch(exist_ok=False)
        except FileExistsError:
            return
        os.abort()
    if "breaks" in source:
        print("RuntimeError: the judge lost its mind", file=sys.stderr)
        sys.exit(3)


def build_beside(cache: Path) -> None:
    """Wait for a measurement to build beside, except in the first two builds."""
    ended = [each for each in notes(cache) if (each["stage"], each["what"]) == ("build", "ends")]
    if len(ended) >= 2:
        wait_for(lambda: (cache / "built-beside").exists() or at_work(cache, "measure"))
        (cache / "built-beside").touch()


def wait_for(holds: Callable[[], object]) -> None:
    end = time.monotonic() + MAX_WAIT_SECONDS  # waits: a deadline
    while not holds():
        if time.monotonic() > end:  # waits: a deadline
            sys.exit(f"nothing came for {MAX_WAIT_SECONDS} s")
        time.sleep(0.02)  # waits: between two looks at a file


def notes(cache: Path) -> list[dict[str, Any]]:
    path = cache / "turns"
    return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []


def at_work(cache: Path, stage: str) -> set[float]:
    """Return the processes that have begun and not ended a turn of that stage."""
    found: set[float] = set()
    for each in notes(cache):
        if each["stage"] == stage:
            (found.add if each["what"] == "begins" else found.discard)(each["started"])
    return found


def note(request: dict[str, Any], what: str) -> None:
    Path(request["cache"]).mkdir(parents=True, exist_ok=True)
    at = time.time()  # waits: the order of notes
    told = {
        "what": what, "stage": request["stage"], "at": at, "started": STARTED,
        "arch": os.environ.get("ARENA_CUDA_ARCH"),
        "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"), "cores": sorted(os.sched_getaffinity(0)),
    }  # fmt: skip
    with (Path(request["cache"]) / "turns").open("a") as file:
        file.write(json.dumps(told) + "\n")


def devices(cache: Path) -> list[dict[str, Any]]:
    listed = cache / "devices.json"
    found: list[dict[str, Any]] = json.loads(listed.read_text()) if listed.is_file() else [DEVICE]
    return found


def report(
    gates: list[dict[str, Any]],
    request: dict[str, Any],
    interval: dict[str, float] | None = None,
) -> int:
    last = gates[-1]
    line(
        "report", task=request["task"], task_hash="0", judge_version="fake", gates=gates,
        verdict=last["verdict"], reason=last["reason"], message=last["message"], seen=interval,
        unseen=interval if request["scope"] == "final" else None, roofline_share=0.5, noisy=False,
        aka_score=0.0, fingerprint={}, seconds={},
    )  # fmt: skip
    return {"passed": 0, "inconclusive": 4}.get(last["verdict"], 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["hardware"]:
        print(json.dumps({"devices": devices(Path(sys.argv[-1]))}))
    else:
        if sys.argv[1:2] != ["wait"]:
            sys.exit(judge(json.load(sys.stdin)))
        line("ready")
        for request in sys.stdin:
            line("end", code=judge(json.loads(request)))
