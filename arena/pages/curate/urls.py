"""The URLs below /curate/."""

from __future__ import annotations

from django.urls import path

from arena.pages.curate import (
    audit,
    baselines,
    checkouts,
    checks,
    drafts,
    editor,
    quarantine,
    rejudging,
)

urlpatterns = [
    path("", drafts.index, name="curate"),
    path("new/", drafts.new, name="draft-new"),
    path("tasks/<slug:operator>/draft/", drafts.of_task, name="draft-of-task"),
    path("tasks/<slug:operator>/<slug:track>/status/", drafts.task_status, name="task-status"),
    path("drafts/<int:pk>/", drafts.draft, name="draft"),
    path("drafts/<int:pk>/diff/", drafts.diff, name="draft-diff"),
    path("drafts/<int:pk>/do/<slug:action>/", drafts.act, name="draft-act"),
    path("drafts/<int:pk>/file/", editor.file, name="draft-file"),
    path("drafts/<int:pk>/validate/", editor.validate, name="draft-validate"),
    path("checkout/", checkouts.checkout, name="checkout"),
    path("quarantine/", quarantine.quarantine, name="quarantine"),
    path("baselines/", baselines.baselines, name="baselines"),
    path("rejudge/", rejudging.index, name="rejudge"),
    path("rejudge/<int:pk>/", rejudging.rejudging, name="rejudging"),
    path("rejudge/<int:pk>/progress/", rejudging.progress, name="rejudging-progress"),
    path("rejudge/<int:pk>/cancel/", rejudging.cancel, name="rejudging-cancel"),
    path("audit/", audit.audit, name="audit"),
    path("checks/<int:pk>/", checks.check, name="check"),
    path("checks/<int:pk>/steps/", checks.steps, name="check-steps"),
    path("checks/<int:pk>/cancel/", checks.cancel, name="check-cancel"),
]
