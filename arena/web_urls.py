"""The URLs of the pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.urls import include, path, reverse_lazy

from arena.accounts.forms import PasswordForm
from arena.accounts.sign_in_link import sign_in
from arena.accounts.views import revoke_token, sign_up
from arena.catalog import agent_views
from arena.catalog import views as catalog
from arena.leaderboard.views import (
    agents,
    analysis,
    board,
    claims,
    compare,
    experiments,
    home,
    kernels,
    production,
    statistics,
    tasks,
)
from arena.runs import views as runs
from arena.runs.account_views import account
from arena.runs.submit_views import submit

urlpatterns = [
    path("", home.home, name="home"),
    path("leaderboard/", board.leaderboard, name="leaderboard"),
    path("leaderboard/parts/<slug:name>/", board.part, name="board-part"),
    path("tasks/", tasks.tasks, name="tasks"),
    path("tasks/<slug:operator>/", tasks.operator, name="operator"),
    path("tasks/<slug:operator>/<slug:track>/", tasks.task, name="task"),
    path("production/", production.index, name="production"),
    path("production/<slug:name>/", production.architecture, name="architecture"),
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agent_views.new, name="agent-new"),
    path("agents/<slug:slug>/", agents.agent, name="agent"),
    path("agents/<slug:slug>/failures/", agents.failures, name="agent-failures"),
    path("agents/<slug:slug>/edit/", agent_views.edit, name="agent-edit"),
    path("claims/", claims.claims, name="claims"),
    path("claims.csv", claims.claims_csv, name="claims-csv"),
    path("claims/<slug:kernel_id>/", claims.claim, name="claim"),
    path("kernels/", kernels.kernels, name="kernels"),
    path("submit/", submit, name="submit"),
    path("hardware/", catalog.hardware, name="hardware"),
    path("analysis/", analysis.analysis, name="analysis"),
    path("analysis/statistics/", statistics.statistics, name="statistics"),
    path("compare/", compare.compare, name="compare"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<slug:slug>/", experiments.experiment, name="experiment"),
    path("experiments/<slug:slug>/continue/", runs.continue_experiment, name="experiment-continue"),
    path("methodology/", home.methodology, name="methodology"),
    path("runs/", runs.runs, name="runs"),
    path("runs/start/", runs.start, name="run-start"),
    path("runs/<slug:run_id>/", runs.run, name="run"),
    path("runs/<slug:run_id>/summary/", runs.summary, name="run-summary"),
    path("runs/<slug:run_id>/events/", runs.events, name="run-events"),
    path("runs/<slug:run_id>/events/<int:seq>/", runs.event, name="run-event"),
    path("runs/<slug:run_id>/seek/", runs.seek_row, name="run-seek"),
    path("runs/<slug:run_id>/lanes/", runs.lanes, name="run-lanes"),
    path("runs/<slug:run_id>/outline/", runs.part_of_outline, name="run-outline"),
    path("runs/<slug:run_id>/moments/", runs.moments, name="run-moments"),
    path("runs/<slug:run_id>/rounds/<int:number>/", runs.one_round, name="round"),
    path("runs/<slug:run_id>/rounds/<int:number>/files/<path:path>", runs.file, name="file"),
    path("runs/<slug:run_id>/continue/", runs.continue_, name="run-continue"),
    path("runs/<slug:run_id>/cancel/", runs.cancel, name="run-cancel"),
    path("sign-in/<int:user_id>/<slug:token>/", sign_in, name="sign-in"),
    path("signup/", sign_up, name="sign-up"),
    path("account/", account, name="account"),
    path("account/tokens/<int:token_id>/revoke/", revoke_token, name="token-revoke"),
    path(
        "account/password/",
        PasswordChangeView.as_view(form_class=PasswordForm, success_url=reverse_lazy("account")),
        name="password-change",
    ),
    path("curate/", include("arena.curation.urls")),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="home"), name="logout"),
]
