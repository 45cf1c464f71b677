"""Checks of drafts: the judge admits the files of a draft inside one more sandbox.

A draft comes from a browser, and the judge runs its `reference.py` and its kernels in sandboxes.
Beyond that the whole judge is confined: it has no network, reads its code and the draft alone, and
writes to a folder that is removed. It runs as a user of its own where the worker is root, and
its filter of system calls leaves what a judge needs. Inside, candidates and the code of the task
are confined by Landlock and seccomp.

Limitation: an author can forge the output of a check from `reference.py`. It is for the second
person who reads the files.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from arena.catalog.task_folders import write_files
from arena.curation import checks
from arena.curation.models import Check
from arena.runs.services import new_lease
from evaluation.bench.devices.gpu_files import Gpus, measured, of_uuid
from evaluation.code.building import nvcc
from evaluation.device_kind import GPU
from evaluation.judge.answers import INCONCLUSIVE, NOT_PASSED, PASSED
from evaluation.sandbox import launch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from runners.process.supervisor import Child, Ended, Ending, stopping
from runners.worker import judge_user, judging
from runners.worker.bench import Bench, bench_of

PACKAGE = Path(judging.__file__).resolve().parents[2] / "evaluation"
PEAKS = "peaks"
CHECK_SECONDS = 3 * 3600
MAX_PROCESSES = 4096
MAX_FILE_BYTES = 1 << 30
KINDS = ("task", "skipped", "check", "attempt", "admission", "fitted", "error")
MAX_TEXT = 2_000


def check(check_id: int) -> None:
    """Execute a queued check, once a bench of its hardware is free."""
    with bench_of(Check, check_id) as bench:
        lease = new_lease()
        if bench is not None and (claimed := checks.claim_check(check_id, lease)):
            _carry_out(claimed, lease, bench)


def _carry_out(check: Check, lease: str, bench: Bench) -> None:
    try:
        _Checking(check, lease, bench).carry_out()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        checks.break_check(check.pk, lease, text, judging.is_interruption(error))
        raise


class _Checking:
    def __init__(self, check: Check, lease: str, bench: Bench) -> None:
        self.check, self.lease, self.bench = check, lease, bench
        self.results: list[bool] = []
        self.unsteady: list[str] = []
        self.errors: list[str] = []
        self.place = Path()
        """The folder of this check."""

    def carry_out(self) -> None:
        features = isolation_features()
        if not features.any:
            reason = "This machine cannot isolate untrusted code, so it checks no drafts."
            checks.finish_check(self.check.pk, self.lease, False, reason)
            return
        self.place = Path(tempfile.mkdtemp(prefix="arena-check-"))
        try:
            ended = self._run()
        finally:
            untrusted_files.remove(self.place)
        self._conclude(ended, self._without_place(ended.stderr))

    def _run(self) -> Ended:
        work, code, tasks = (self.place / name for name in ("work", "code", "tasks"))
        for folder in (work / "cache", code, tasks):
            folder.mkdir(parents=True)
        # A copy, since the folder of the checkout may have the database in it.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, code / PACKAGE.name, ignore=ignored)
        write_files(tasks / self.check.draft.name, self.check.draft.files)
        for folder in (code, tasks):
            untrusted_files.make_readable(folder)
        if (measured := judge_user.cache() / PEAKS).is_dir():
            shutil.copytree(measured, work / "cache" / PEAKS)
        end = time.monotonic() + CHECK_SECONDS
        child = Child(
            launch.command(self._judge(tasks, work), self._policy(code, tasks, work)),
            on_lines=self._receive,
            cwd=code,
            env=self._environment(work),
        )
        return child.follow(deadline=lambda: end, heartbeat=self._heartbeat)

    def _judge(self, tasks: Path, work: Path) -> list[str]:
        if self.check.fits:
            options = ["--tasks", str(tasks), "--stream"]
            return [*judging.COMMAND, "fit", self.check.draft.name, *options]
        # Nothing but this check judges a draft's own mutants before they are published.
        options = ["--self-test", "--tasks", str(tasks), "--cache", str(work / "cache"), "--stream"]
        return [*judging.COMMAND, "admit", self.check.draft.name, *options]

    def _policy(self, code: Path, tasks: Path, work: Path) -> Policy:
        compiler = nvcc.compiler()
        toolkit = (str(Path(compiler).resolve().parents[1]),) if compiler else ()
        return Policy(
            features=isolation_features(),
            readable=(
                sys.prefix,
                sys.base_prefix,
                sys.executable,
                str(code),
                str(tasks),
                *toolkit,
            ),
            writable=(str(work),),
            memory_bytes=0,
            file_bytes=MAX_FILE_BYTES,
            cpu_seconds=CHECK_SECONDS * 4,
            processes=MAX_PROCESSES,
            gpu=self.check.hardware.kind == GPU,
            gpu_files=self._gpus().files,
            unprivileged_user=True,
            judges=True,
            minimal_root=True,
        )

    def _gpus(self) -> Gpus:
        """Return the GPU of the check's bench, or the first one where it is of unknown hardware."""
        if self.check.hardware.kind != GPU:
            return Gpus((), ())
        return of_uuid(self.bench.lock) if self.bench.lock else measured()

    def _environment(self, work: Path) -> dict[str, str]:
        kept = {name: text for name, text in judging.environment().items() if name != "HOME"}
        return {
            **kept,
            **judging.compiled_for(self.check.hardware),
            **self.bench.environment,
            "CUDA_VISIBLE_DEVICES": ",".join(self._gpus().names),
            "HOME": str(work),
            "TMPDIR": str(work),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _receive(self, lines: list[str]) -> None:
        """Store what the judge printed; it may be forged, so only known lines count."""
        bodies = []
        for line in lines:
            body = _parsed(self._without_place(line))
            if body is None:
                continue
            bodies.append(body)
            if body["type"] == "admission":
                unsteady = body.get("only_unsteady") is True
                self.results.append(unsteady or body.get("admitted") is True)
                if unsteady:
                    self.unsteady.append(str(body["task"])[:MAX_TEXT])
            elif body["type"] == "fitted" and self.check.fits:
                self.results.append(True)
            elif body["type"] == "error":
                self.errors.append(str(body.get("message"))[:MAX_TEXT])
        if bodies:
            checks.add_steps(self.check.pk, self.lease, bodies)

    def _without_place(self, text: str) -> str:
        """Return a text of the judge with paths that begin at the folder of the task."""
        return text.replace(f"{self.place}/tasks/", "").replace(f"{self.place}/", "")

    def _heartbeat(self) -> bool:
        return checks.heartbeat_check(self.check.pk, self.lease)

    def _conclude(self, ended: Ended, stderr: str) -> None:
        """End the check; a worker that stops leaves it to another."""
        if ended.ending is Ending.STOPPED:
            if stopping.is_set():
                checks.break_check(self.check.pk, self.lease, "Its worker was stopped.", True)
            return
        if ended.ending is Ending.DEADLINE:
            text = f"The check took more than {CHECK_SECONDS} seconds."
            checks.finish_check(self.check.pk, self.lease, False, text)
            return
        detail = (stderr.splitlines() or ["nothing"])[-1]
        if ended.code == INCONCLUSIVE:
            text = detail.removeprefix("evaluation: ")
            checks.break_check(self.check.pk, self.lease, text[:MAX_TEXT])
            return
        if ended.code not in (PASSED, NOT_PASSED) and not self.errors:
            text = f"The judge ended with status {ended.code}: {detail}"
            checks.finish_check(self.check.pk, self.lease, False, text[:MAX_TEXT])
            return
        admitted = bool(self.results) and all(self.results) and not self.errors
        text = self.errors[0] if self.errors else ""
        if not (self.results or self.errors):
            text = f"Nothing can be judged here: {stderr}"
        elif self.unsteady:
            names = ", ".join(self.unsteady)
            text = f"Times of {names} did not repeat: check again on an idle machine."
        checks.finish_check(self.check.pk, self.lease, admitted, text[-MAX_TEXT:])


def _parsed(line: str) -> dict[str, Any] | None:
    """Return a line of the judge that has a known type; None for any other."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(body, dict) and body.get("type") in KINDS
    return body if known and "\\u0000" not in line else None
