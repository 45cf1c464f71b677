"""The URLs of the pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from arena.accounts.sign_in_link import sign_in
from arena.catalog import agent_views
from arena.catalog import views as catalog
from arena.leaderboard.views import agents, analysis, board, compare, experiments, tasks
from arena.runs import views as runs

urlpatterns = [
    path("", board.home, name="home"),
    path("leaderboard/", board.leaderboard, name="leaderboard"),
    path("tasks/", tasks.tasks, name="tasks"),
    path("tasks/<slug:operator>/", tasks.operator, name="operator"),
    path("tasks/<slug:operator>/<slug:track>/", tasks.task, name="task"),
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agent_views.new, name="agent-new"),
    path("agents/<slug:slug>/", agents.agent, name="agent"),
    path("agents/<slug:slug>/edit/", agent_views.edit, name="agent-edit"),
    path("hardware/", catalog.hardware, name="hardware"),
    path("analysis/", analysis.analysis, name="analysis"),
    path("compare/", compare.compare, name="compare"),
    path("experiments/", experiments.experiment_list, name="experiments"),
    path("experiments/<slug:slug>/", experiments.experiment, name="experiment"),
    path("experiments/<slug:slug>/continue/", runs.continue_experiment, name="experiment-continue"),
    path("methodology/", board.methodology, name="methodology"),
    path("runs/", runs.runs, name="runs"),
    path("runs/start/", runs.start, name="run-start"),
    path("runs/<slug:run_id>/", runs.run, name="run"),
    path("runs/<slug:run_id>/summary/", runs.summary, name="run-summary"),
    path("runs/<slug:run_id>/events/", runs.events, name="run-events"),
    path("runs/<slug:run_id>/moments/", runs.moments, name="run-moments"),
    path("runs/<slug:run_id>/rounds/<int:number>/", runs.one_round, name="round"),
    path("runs/<slug:run_id>/rounds/<int:number>/files/<path:path>", runs.file, name="file"),
    path("runs/<slug:run_id>/continue/", runs.continue_, name="run-continue"),
    path("runs/<slug:run_id>/cancel/", runs.cancel, name="run-cancel"),
    path("sign-in/<int:user_id>/<slug:token>/", sign_in, name="sign-in"),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="home"), name="logout"),
]
