"""Where the time of a submission's kernels goes: profiled on one seen case, behind the same walls.

A profile informs and judges nothing. What runs has neither memory of the judge's nor a value of its
making: the inputs are drawn from a seed that anyone may know, so there is nothing to be learned.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

from evaluation import pipeline
from evaluation.device_kind import GPU
from evaluation.errors import Broken, RequestError
from evaluation.languages import languages
from evaluation.process.limits import ProcessLimits
from evaluation.profiling.facts import Profile, Unprofiled, merged, plain, table
from evaluation.profiling.tools import Tool, tools
from evaluation.sandbox import launch, untrusted_files
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import BUILD_LIMITS, SECONDS
from evaluation.sandboxed import profile_kernel
from evaluation.tasks.spec import Task
from evaluation.tracks.builds import Build, build
from evaluation.types import Case, Reason, Split, Verdict

__all__ = ["Profile", "chosen_case", "profile", "profile_of", "table", "unprofilable"]

BEGIN_SECONDS, MOST_SECONDS = 40.0, 100.0
"""For a profiler to get to the candidate, and for all of it."""
TOOL_BYTES = 8 << 30
"""Memory that a profiler may take beside the candidate."""
TOO_MUCH = {SECONDS: Reason.TIMEOUT, "memory_bytes": Reason.OUT_OF_MEMORY}
CACHE_BYTES = 256 << 20
"""More than the caches of a GPU hold: launches go round so much memory."""
MOST_MESSAGE, MOST_SAID = 2000, 600


def unprofilable(task: Task) -> str:
    """Why nothing of a task can be profiled on this machine; empty when it can."""
    why = languages()[task.track.target].runs_here()
    if task.kind == GPU and not why:
        return ""
    return f"no profiler for the CPU here: needs a GPU{f' ({why})' if why else ''}"


def chosen_case(task: Task, name: str) -> Case:
    """The seen case of that name; without a name the largest. Raises RequestError."""
    cases = task.cases(Split.SEEN)
    if not name:
        return max(cases, key=task.operator.elements)
    for case in cases:
        if case.name == name:
            return case
    known = ", ".join(case.name for case in cases)
    raise RequestError(f"there is no seen case {name!r}; there are: {known}")


def profile_of(request: pipeline.Request, case: Case) -> Profile:
    """Read, build and profile a submission. What is its own fault is told in the profile; raises
    Broken for ours.
    """
    task = request.task
    if why := unprofilable(task):
        return Profile(case.name, reason=Reason.NO_DEVICE, message=why)
    report = pipeline.evaluate(dataclasses.replace(request, stage="build", scope="round"))
    if report.verdict is Verdict.BROKEN:
        raise Broken(str(report.gates[-1].private.get("error", report.message)))
    if report.verdict is not Verdict.PASSED:
        return Profile(case.name, reason=report.reason, message=report.message)
    return profile(task, build(task, task.track.target, request.files, request.cache), case)


def profile(task: Task, built: Build, case: Case) -> Profile:
    """Profile a built submission by the best tool of this machine that sees its kernels."""
    found, missed = Profile(case.name, reason=Reason.NO_DEVICE), []
    for name, tool in tools().items():
        if why := tool.absent():
            missed.append(why)
            continue
        try:
            found = _profiled(task, built, case, name, tool)
        except Unprofiled as unprofiled:
            missed.append(str(unprofiled))
            continue
        if found.kernels or found.reason is Reason.TIMEOUT:
            break
    said = plain("; ".join(filter(None, (*missed, found.message))))
    return dataclasses.replace(found, message=said[:MOST_MESSAGE])


def _profiled(task: Task, built: Build, case: Case, name: str, tool: Tool) -> Profile:
    limits = task.operator.limits
    with untrusted_files.scratch() as scratch:
        rights = ProcessLimits(
            folder=built.folder.resolve(),
            scratch=scratch,
            memory_bytes=limits.memory_mb << 20,
            seconds=MOST_SECONDS,
            threads=1,
            compiles=True,  # the walls stand before the program starts that is profiled
            kind=task.kind,
        )
        job = _job(task, built, case, name, tool)
        policy = rights.policy()
        readable = (*policy.readable, job["reference"], *tool.readable())
        # Counters are root's.
        policy = dataclasses.replace(policy, readable=readable, unprivileged_user=False)
        if tool.command():
            policy, job["policy"] = _parted(policy)
        done = launch.run(
            [*tool.command(), sys.executable, "-I", profile_kernel.__file__, json.dumps(job)],
            policy,
            timeout=MOST_SECONDS,
            cwd=rights.scratch,
            env=rights.variables(),
            limits=dataclasses.replace(BUILD_LIMITS, memory_bytes=rights.memory_bytes + TOOL_BYTES),
            marker=launch.ReadyMarker(profile_kernel.REACHED, BEGIN_SECONDS),
        )
    return _concluded(done, case, tool)


def _parted(policy: Policy) -> tuple[Policy, str]:
    """The walls around a profiler that starts the candidate's process, and those that this process
    puts up around itself before it loads the candidate.

    Landlock lets a GPU's driver write below `/proc/self` of one process alone, so that one has to
    put it up. The two talk by sockets.
    """
    inner = dataclasses.replace(policy, unix_sockets=True)
    outer = dataclasses.replace(policy.features, landlock=0)
    return dataclasses.replace(inner, features=outer, pinned=False), inner.to_json()


def _job(task: Task, built: Build, case: Case, name: str, tool: Tool) -> dict[str, Any]:
    """What the inmate is told: plain data, none of it a secret."""
    from evaluation.memory.ring import ring_slots, values_of

    operator = task.operator
    return {
        "tool": name,
        "language": built.language,
        "folder": str(built.folder.resolve()),
        "entry": operator.name,
        "reference": str((operator.folder / "reference.py").resolve()),
        "arguments": [dataclasses.asdict(argument) for argument in operator.arguments],
        "case": dataclasses.asdict(case),
        "values": values_of(operator, case),
        "slots": min(tool.LAUNCHES, ring_slots(operator, case, CACHE_BYTES)),
        "launches": tool.LAUNCHES,
    }


def _concluded(done: launch.Completed, case: Case, tool: Tool) -> Profile:
    """What came of it, all of which a stranger may have written once it has begun. Raises
    Unprofiled.
    """
    answer = _answer(done.stdout)
    kernels = merged(tool.read(done.stdout, answer))
    if kernels:
        return Profile(case.name, tool.title(), kernels)
    said = done.stdout.strip()
    if not done.ready:
        why = answer.get("message") or said or f"no answer, exit code {done.returncode}"
        raise Unprofiled(f"{tool.title()} did not get to the kernel: {str(why)[-MOST_SAID:]}")
    if done.exceeded:
        reason = TOO_MUCH.get(done.exceeded.name, Reason.FORBIDDEN)
        return Profile(case.name, reason=reason, message=f"the profile {done.exceeded}")
    if not answer:
        end = f"the process that was profiled ended with code {done.returncode}"
        message = f"{end}; it said: {said[-MOST_SAID:]}"
        return Profile(case.name, reason=Reason.CRASH, message=message)
    known = Reason.__members__.get(str(answer.get("reason")), Reason.CALL_ERROR)
    message = str(answer.get("message") or "no kernel was launched")
    return Profile(case.name, reason=known, message=message)


def _answer(text: str) -> Mapping[str, Any]:
    """What the inmate answered last; empty where it did not."""
    for line in reversed(text.splitlines()):
        if line.startswith(profile_kernel.ANSWER):
            try:
                answer = json.loads(line.removeprefix(profile_kernel.ANSWER))
            except (ValueError, RecursionError):
                return {}
            return answer if isinstance(answer, dict) else {}
    return {}
