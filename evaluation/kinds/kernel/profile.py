"""Profiling of a submission: run a tool around its kernels in the sandbox, and parse its output.

The process holds none of the judge's memory and no secret. Its inputs have a public seed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from typing import Any

from evaluation.bench.memory.ring import ring_slots
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.profiling.kernels import Unprofiled, merge
from evaluation.bench.profiling.tools import Tool, tools
from evaluation.code.languages import languages
from evaluation.device_kind import GPU
from evaluation.errors import Broken, RequestError
from evaluation.judge.report import error_of
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.builds import Build, build
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.sandbox import launch, untrusted_files
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import BUILD_LIMITS, SECONDS
from evaluation.sandbox.untrusted_text import printable
from evaluation.sandboxed import profile_kernel
from evaluation.tasks import task_code
from evaluation.tasks.spec import Task
from evaluation.types import Case, Profile, Reason, Split, Verdict

MAX_START_SECONDS, MAX_SECONDS = 40.0, 100.0
"""Limits until the tool reaches the candidate, and of the whole run."""
TOOL_MEMORY_BYTES = 8 << 30
"""Memory of the tool, on top of the candidate's limit."""
EXCEEDED_REASONS = {SECONDS: Reason.TIMEOUT, "memory_bytes": Reason.OUT_OF_MEMORY}
RING_BYTES = 256 << 20
"""Memory that the launches cycle through: more than the caches of a GPU."""
MAX_MESSAGE_CHARACTERS, MAX_OUTPUT_CHARACTERS = 2000, 600


def unsupported(task: Task) -> str:
    """Return why a task cannot be profiled on this machine; empty when it can."""
    why = languages()[task.track.target].runs_here()
    if task.kind == GPU and not why:
        return ""
    return f"no profiler for the CPU here: needs a GPU{f' ({why})' if why else ''}"


def seen_case(task: Task, name: str) -> Case:
    """Return the seen case with a name, or the largest for an empty one. Raises: RequestError."""
    cases = task.cases(Split.SEEN)
    if not name:
        return max(cases, key=task.operator.elements)
    for case in cases:
        if case.name == name:
            return case
    known = ", ".join(case.name for case in cases)
    raise RequestError(f"there is no seen case {name!r}; there are: {known}")


def profile_submission(request: Request, case: Case) -> Profile:
    """Check, build and profile a submission. The profile reports the submission's own faults.

    Raises: Broken for a fault of the judge.
    """
    task = request.task
    if why := unsupported(task):
        return Profile(case.name, reason=Reason.NO_DEVICE, message=why)
    report = kernel_judge.evaluate(dataclasses.replace(request, stage="build", scope="round"))
    if report.verdict is Verdict.BROKEN:
        raise Broken(error_of(report) or report.message)
    if report.verdict is not Verdict.PASSED:
        return Profile(case.name, reason=report.reason, message=report.message)
    with ExitStack() as stack:
        server = cache(lambda: stack.enter_context(ForkServer()))
        stack.enter_context(task_code.hosted(processes_of(server)))
        built = build(task, task.track.target, request.files, request.cache)
        return profile_build(task, built, case)


def profile_build(task: Task, built: Build, case: Case) -> Profile:
    """Profile a build with the best tool of this machine that observes its kernels."""
    profile, messages = Profile(case.name, reason=Reason.NO_DEVICE), []
    for name, tool in tools().items():
        if why := tool.absent():
            messages.append(why)
            continue
        try:
            profile = _run_tool(task, built, case, name, tool)
        except Unprofiled as unprofiled:
            messages.append(str(unprofiled))
            continue
        if profile.kernels or profile.reason is Reason.TIMEOUT:
            break
    message = printable("; ".join(filter(None, (*messages, profile.message))))
    return dataclasses.replace(profile, message=message[:MAX_MESSAGE_CHARACTERS])


def _run_tool(task: Task, built: Build, case: Case, name: str, tool: Tool) -> Profile:
    with untrusted_files.scratch() as scratch:
        process = ProcessLimits(
            folder=built.folder.resolve(),
            scratch=scratch,
            memory_bytes=task.operator.limits.memory_mb << 20,
            seconds=MAX_SECONDS,
            threads=1,
            compiles=True,  # the sandbox is set up before the profiled program starts
            kind=task.kind,
        )
        job = _job(task, built, case, name, tool)
        policy = process.policy()
        readable = (*policy.readable, job["reference"], *tool.readable())
        # Only root reads hardware counters.
        policy = dataclasses.replace(policy, readable=readable, unprivileged_user=False)
        if tool.command():
            policy, job["policy"] = split_policy(policy)
        memory_bytes = process.memory_bytes + TOOL_MEMORY_BYTES
        completed = launch.run(
            [*tool.command(), sys.executable, "-I", profile_kernel.__file__, json.dumps(job)],
            policy,
            timeout=MAX_SECONDS,
            cwd=process.scratch,
            env=process.variables(),
            limits=dataclasses.replace(BUILD_LIMITS, memory_bytes=memory_bytes),
            marker=launch.ReadyMarker(profile_kernel.REACHED, MAX_START_SECONDS),
        )
    return parse_output(completed, case, tool)


def split_policy(policy: Policy) -> tuple[Policy, str]:
    """Split a policy between a tool and the candidate's process, which the tool starts.

    Landlock lets a GPU driver write below `/proc/self` only in the process that confined itself.
    The two processes communicate by sockets.

    Returns: the tool's policy, and as JSON the one with which the other process confines itself.
    """
    inner = dataclasses.replace(policy, unix_sockets=True)
    outer = dataclasses.replace(policy.features, landlock=0)
    tool = dataclasses.replace(inner, features=outer, pinned=False, confines_itself=True)
    return tool, inner.to_json()


def _job(task: Task, built: Build, case: Case, name: str, tool: Tool) -> dict[str, Any]:
    """Return the job of the sandboxed process: plain data without secrets."""
    operator = task.operator
    workload = OperatorWorkload(operator, case)
    return {
        "tool": name,
        "loader": languages()[built.language].loader,
        "folder": str(built.folder.resolve()),
        "entry": operator.name,
        "reference": str((operator.folder / "reference.py").resolve()),
        "arguments": [dataclasses.asdict(argument) for argument in workload.arguments],
        "case": dataclasses.asdict(case),
        "values": workload.values,
        "suite_call": operator.suite_call(case, seed=0),
        "slots": min(tool.LAUNCHES, ring_slots(workload, RING_BYTES)),
        "launches": tool.LAUNCHES,
    }


def parse_output(completed: launch.Completed, case: Case, tool: Tool) -> Profile:
    """Return the profile in a tool's output, which is untrusted once the candidate runs.

    Raises: Unprofiled.
    """
    answer = _answer(completed.stdout)
    kernels = merge(tool.read(completed.stdout, answer))
    if kernels:
        return Profile(case.name, tool.title(), kernels)
    output = completed.stdout.strip()
    if not completed.ready:
        why = str(answer.get("message") or output or f"no answer, exit code {completed.returncode}")
        raise Unprofiled(
            f"{tool.title()} did not get to the kernel: {why[-MAX_OUTPUT_CHARACTERS:]}"
        )
    if completed.exceeded:
        reason = EXCEEDED_REASONS.get(completed.exceeded.name, Reason.FORBIDDEN)
        return Profile(case.name, reason=reason, message=f"the profile {completed.exceeded}")
    if not answer:
        end = f"the profiled process ended with code {completed.returncode}"
        message = f"{end}; its output: {output[-MAX_OUTPUT_CHARACTERS:]}"
        return Profile(case.name, reason=Reason.CRASH, message=message)
    reason = Reason.__members__.get(str(answer.get("reason")), Reason.CALL_ERROR)
    message = str(answer.get("message") or "no kernel was launched")
    return Profile(case.name, reason=reason, message=message)


def _answer(text: str) -> Mapping[str, Any]:
    """Return the last answer of the sandboxed process; empty without one."""
    for line in reversed(text.splitlines()):
        if line.startswith(profile_kernel.ANSWER):
            try:
                answer = json.loads(line.removeprefix(profile_kernel.ANSWER))
            except (ValueError, RecursionError):
                return {}
            return answer if isinstance(answer, dict) else {}
    return {}
