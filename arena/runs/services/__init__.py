"""All writes to runs, for views, API, workers and commands."""

from arena.runs.services.continuation import can_continue, continue_run, interrupt_run
from arena.runs.services.direct import submit_kernel
from arena.runs.services.evaluations import (
    break_evaluation,
    claim_evaluation,
    finish_build,
    finish_evaluation,
    finish_profile,
    heartbeat_evaluation,
    record_gate,
    request_evaluation,
    request_profile,
    rounds_spent,
    submit,
)
from arena.runs.services.external import (
    finish_external_run,
    ingest,
    progress,
    request_verdict,
    start_external_run,
)
from arena.runs.services.quarantine import quarantine, release
from arena.runs.services.reaper import reap, take_over
from arena.runs.services.rejudging import cancel_rejudging, request_rejudging
from arena.runs.services.runs import (
    cancel_run,
    claim_next,
    claim_run,
    finish_run,
    heartbeat_run,
    new_lease,
    show_run,
    start_run,
)
from arena.runs.trace.recording import record
from arena.runs.transfer.imports import import_results

__all__ = [
    "break_evaluation",
    "can_continue",
    "cancel_rejudging",
    "cancel_run",
    "claim_evaluation",
    "claim_next",
    "claim_run",
    "continue_run",
    "finish_build",
    "finish_evaluation",
    "finish_external_run",
    "finish_profile",
    "finish_run",
    "heartbeat_evaluation",
    "heartbeat_run",
    "import_results",
    "ingest",
    "interrupt_run",
    "new_lease",
    "progress",
    "quarantine",
    "reap",
    "record",
    "record_gate",
    "release",
    "request_evaluation",
    "request_profile",
    "request_rejudging",
    "request_verdict",
    "rounds_spent",
    "show_run",
    "start_external_run",
    "start_run",
    "submit",
    "submit_kernel",
    "take_over",
]
