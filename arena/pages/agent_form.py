"""The pages that make and change agents; for staff, since an agent spends a provider's key."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from arena.accounts.access import only_staff
from arena.accounts.auth import signed_in
from arena.catalog import services
from arena.catalog.availability import known_providers, live_workers
from arena.catalog.forms import AgentForm, ChangedAgentForm
from arena.catalog.models import Agent, Harness
from arena.catalog.settings_form import SettingsForm
from arena.errors import Invalid

SETTINGS = "settings"
COPIED = ("model", "provider", "description")
REFUSAL = "Only staff make and change agents here. The page of agents says how you bring your own."


@only_staff(REFUSAL)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the harnesses; of `?harness=`, or of the agent `?from=`, the form of a new agent."""
    slug, name = request.GET.get("from", ""), request.GET.get("harness", "")
    source = get_object_or_404(Agent, slug=slug) if slug else None
    if source is None and not name:
        harnesses = sorted(Harness.objects.all(), key=lambda h: (not h.wires, h.title))
        return render(request, "agent_harness.html", {"harnesses": harnesses})
    harness = get_object_or_404(Harness, name=source.adapter if source else name)
    data = request.POST if request.method == "POST" else None
    form = AgentForm(
        harness,
        known_providers(live_workers()),
        data,
        initial={field: getattr(source, field) for field in COPIED if source},
    )
    settings_form = _settings_form(harness, data, source)
    if form.is_valid() and settings_form.is_valid():
        values = {**form.cleaned_data, "settings": settings_form.settings()}
        try:
            agent = services.create_agent(adapter=harness.name, by=signed_in(request), **values)
        except Invalid as error:
            form.add_errors(error.fields, error.text)
        else:
            messages.success(request, f"{agent.title} is an agent now.")
            if twins := services.equal_agents(agent):
                named = ", ".join(f"{twin.title} ({twin.slug})" for twin in twins)
                messages.warning(request, f"It has the same settings as {named}.")
            return redirect("agent", agent.slug)
    context = {"form": form, "settings_form": settings_form, "harness": harness, "source": source}
    return _form_page(request, context)


@only_staff(REFUSAL)
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Change an agent that a person made; with runs, it keeps its model and its settings."""
    agent = get_object_or_404(Agent, slug=slug)
    harness = Harness.objects.filter(name=agent.adapter).first()
    if agent.shipped:
        text = (
            f"{agent.title} comes with its harness and cannot be changed: make a new one from it."
        )
        messages.warning(request, text)
        return redirect("agent", slug)
    runs = agent.runs.count()
    data = request.POST if request.method == "POST" else None
    open_to = None if runs else harness
    initial = {name: getattr(agent, name) for name in (*COPIED, "title", "active")}
    form = ChangedAgentForm(open_to, known_providers(live_workers()), data, initial=initial)
    settings_form = _settings_form(open_to, data, agent) if open_to else None
    if form.is_valid() and (settings_form is None or settings_form.is_valid()):
        changes = dict(form.cleaned_data)
        if settings_form is not None:
            changes["settings"] = settings_form.settings()
        try:
            services.update_agent(agent, signed_in(request), **changes)
        except Invalid as error:
            form.add_errors(error.fields, error.text)
        else:
            messages.success(request, "Saved.")
            return redirect("agent", slug)
    context = {"form": form, "settings_form": settings_form, "harness": harness}
    return _form_page(request, {**context, "agent": agent, "runs": runs})


def _settings_form(harness: Harness, data: Any, source: Agent | None) -> SettingsForm:
    settings = source.settings if source else None
    return SettingsForm(harness.settings_schema, data, prefix=SETTINGS, initial=settings)


def _form_page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Render the form; with the status 422 where something in it is wrong."""
    settings_form = context["settings_form"]
    wrong = context["form"].errors or (settings_form is not None and settings_form.errors)
    return render(request, "agent_form.html", context, status=422 if wrong else 200)
