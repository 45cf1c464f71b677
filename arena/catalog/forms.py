"""Forms that make and change agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.text import slugify

from arena.catalog.availability import KnownProvider
from arena.catalog.models import Agent, Harness
from arena.catalog.services import MAX_SLUG

MAX_DESCRIPTION = 2000


class AgentForm(forms.Form):
    """An agent of one harness; where that uses a model, also the model and its provider."""

    title = forms.CharField(max_length=200, help_text="Shown on the leaderboard.")
    slug = forms.SlugField(
        required=False,
        max_length=MAX_SLUG,
        help_text="Part of its address. Left empty, it is made from the title.",
    )
    description = forms.CharField(
        required=False, max_length=MAX_DESCRIPTION, widget=forms.Textarea({"rows": 2})
    )

    def __init__(
        self,
        harness: Harness | None,
        providers: Mapping[str, KnownProvider],
        *given: Any,
        **more: Any,
    ) -> None:
        super().__init__(*given, **more)
        if harness and harness.wires:
            self.fields["model"] = forms.CharField(
                max_length=100, help_text="Name by which the provider knows the model."
            )
            self.fields["provider"] = _provider(harness, providers, self.initial.get("provider"))
        self.order_fields(["model", "provider", "title", "slug", "description"])

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "slug" in self.fields and "title" in cleaned and not cleaned.get("slug"):
            cleaned["slug"] = suggested_slug(cleaned["title"])
        return cleaned

    def add_errors(self, problems: Mapping[str, str], otherwise: str) -> None:
        """Show each problem at its field; one without a field, or `otherwise`, above the form."""
        for name, text in (problems or {"": otherwise}).items():
            self.add_error(name if name in self.fields else None, text)


class ChangedAgentForm(AgentForm):
    """An agent that exists: its address stays. Without a harness its model stays too."""

    active = forms.BooleanField(required=False, label="Offered for new runs")

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        del self.fields["slug"]


def suggested_slug(title: str) -> str:
    """Return a slug made from a title that no agent has yet."""
    base = slugify(title)[: MAX_SLUG - 4].strip("-_") or "agent"
    taken = set(Agent.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    taken.add("new")
    names = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return base if base not in taken else next(name for name in names if name not in taken)


def _provider(
    harness: Harness, providers: Mapping[str, KnownProvider], current: str | None
) -> forms.Field:
    """Return a choice of the providers that speak a wire format of the harness."""
    wires = set(harness.wires)
    usable = [provider for provider in providers.values() if wires & set(provider.wires)]
    if not usable:
        return forms.CharField(
            max_length=100,
            help_text="Its name in providers.toml. No worker is online that knows one to choose.",
        )
    choices = [("", "Choose a provider")]
    choices += [
        (provider.name, f"{provider.name}: key missing" if provider.problem else provider.name)
        for provider in usable
    ]
    if current and current not in dict(choices):
        choices.append((current, f"{current}: not known here"))
    return forms.ChoiceField(choices=choices, help_text="Who serves the model.")
