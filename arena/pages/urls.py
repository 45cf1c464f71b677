"""The URLs of the pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.urls import include, path, reverse_lazy

from arena.accounts.forms import PasswordForm
from arena.accounts.sign_in_link import sign_in
from arena.pages import (
    account,
    agent_form,
    agents,
    client,
    hardware,
    home,
    live,
    notes,
    operation,
    production,
    published_verdict,
    scans,
    sign_up,
    tasks,
)
from arena.pages.leaderboard import analysis, board, claims, kernels, statistics
from arena.pages.runs import compare, experiments, run, runs, start, submit
from arena.pages.runs.round import file, one_round

urlpatterns = [
    path("healthz", operation.healthz, name="healthz"),
    path("readyz", operation.readyz, name="readyz"),
    path("metrics", operation.metrics, name="metrics"),
    path("", home.home, name="home"),
    path("client/<str:name>", client.download, name="client"),
    path("leaderboard/", board.leaderboard, name="leaderboard"),
    path("leaderboard.csv", board.board_csv, name="leaderboard-csv"),
    path("leaderboard/parts/<slug:name>/", board.part, name="board-part"),
    path("tasks/", tasks.tasks, name="tasks"),
    path("tasks/<slug:operator>/", tasks.operator, name="operator"),
    path("tasks/<slug:operator>/<slug:track>/", tasks.task, name="task"),
    path("production/", production.index, name="production"),
    path("production/<slug:name>/", production.architecture, name="architecture"),
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agent_form.new, name="agent-new"),
    path("agents/<slug:slug>/", agents.agent, name="agent"),
    path("agents/<slug:slug>/failures/", agents.failures, name="agent-failures"),
    path("agents/<slug:slug>/edit/", agent_form.edit, name="agent-edit"),
    path("claims/", claims.claims, name="claims"),
    path("claims.csv", claims.claims_csv, name="claims-csv"),
    path("claims/<slug:kernel_id>/", claims.claim, name="claim"),
    path(
        "verdicts/<slug:slug>/",
        published_verdict.published_verdict,
        name="published-verdict",
    ),
    path("kernels/", kernels.kernels, name="kernels"),
    path("submit/", submit.submit, name="submit"),
    path("hardware/", hardware.hardware, name="hardware"),
    path("analysis/", analysis.analysis, name="analysis"),
    path("analysis/scans/", scans.scans, name="scans"),
    path("analysis/statistics/", statistics.statistics, name="statistics"),
    path("compare/", compare.compare, name="compare"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<slug:slug>/", experiments.experiment, name="experiment"),
    path(
        "experiments/<slug:slug>/cancel/",
        experiments.cancel_experiment,
        name="experiment-cancel",
    ),
    path(
        "experiments/<slug:slug>/continue/",
        experiments.continue_experiment,
        name="experiment-continue",
    ),
    path("methodology/", home.methodology, name="methodology"),
    path("runs/", runs.runs, name="runs"),
    path("live/", live.live, name="live"),
    path("runs/start/", start.start, name="run-start"),
    path("runs/<slug:run_id>/", run.run, name="run"),
    path("runs/<slug:run_id>/summary/", run.summary, name="run-summary"),
    path("runs/<slug:run_id>/events/", run.events, name="run-events"),
    path("runs/<slug:run_id>/events/<int:seq>/", run.event, name="run-event"),
    path("runs/<slug:run_id>/seek/", run.seek_row, name="run-seek"),
    path("runs/<slug:run_id>/lanes/", run.lanes, name="run-lanes"),
    path("runs/<slug:run_id>/outline/", run.part_of_outline, name="run-outline"),
    path("runs/<slug:run_id>/trace.<str:form>", run.export, name="run-export"),
    path("runs/<slug:run_id>/moments/", run.moments, name="run-moments"),
    path("runs/<slug:run_id>/rounds/<int:number>/", one_round, name="round"),
    path("runs/<slug:run_id>/rounds/<int:number>/files/<path:path>", file, name="file"),
    path("runs/<slug:run_id>/notes/", notes.notes, name="run-notes"),
    path("runs/<slug:run_id>/notes/<int:note_id>/remove/", notes.remove, name="note-remove"),
    path("runs/<slug:run_id>/continue/", run.continue_, name="run-continue"),
    path("runs/<slug:run_id>/cancel/", run.cancel, name="run-cancel"),
    path("sign-in/<int:user_id>/<slug:token>/", sign_in, name="sign-in"),
    path("signup/", sign_up.sign_up, name="sign-up"),
    path("account/", account.account, name="account"),
    path("account/tokens/<int:token_id>/revoke/", account.revoke_token, name="token-revoke"),
    path(
        "account/password/",
        PasswordChangeView.as_view(form_class=PasswordForm, success_url=reverse_lazy("account")),
        name="password-change",
    ),
    path("curate/", include("arena.pages.curate.urls")),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="home"), name="logout"),
]
