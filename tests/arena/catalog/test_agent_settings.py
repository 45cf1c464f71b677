"""Tests of agents' settings: their check by a schema, and the form made from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from django import forms
from pydantic import BaseModel, ConfigDict, Field

from arena.catalog.agent_settings import problems_text, schema_problem, settings_problems
from arena.catalog.settings_form import SettingsForm, settings_fields, settings_of


class Nothing(BaseModel):
    pass


class Limits(BaseModel):
    lines: int = 10


class Settings(BaseModel):
    """Every kind of setting that a harness may have."""

    model_config = ConfigDict(extra="forbid")
    command: str = Field(min_length=1, max_length=100, description="Program to start.")
    effort: Literal["low", "medium", "high"] = "medium"
    thinking: Literal["brief", "long"] | None = None
    turns: int = Field(default=20, ge=1, le=500)
    temperature: float | None = Field(default=None, ge=0, le=2)
    share: float = Field(default=0.5, gt=0)
    network: bool = False
    reasoning: bool = True
    prompt: str = Field(default="", max_length=4000)
    tools: list[Literal["read", "write", "shell"]] = ["read", "write"]
    arguments: list[str] = []
    depth: Annotated[int, Field(gt=0, lt=10)] = 3
    limits: Limits = Limits()
    kind: Literal["only"] = "only"


SCHEMA: dict[str, Any] = Settings.model_json_schema()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effort": "hgh"}, "effort: 'hgh' is not one of low, medium, high"),
        ({"thinking": "none"}, "thinking: 'none' is not one of brief, long"),
        ({"turns": "ten"}, "turns: 'ten' is not a whole number"),
        ({"turns": 0}, "turns: 0 is less than 1"),
        ({"turns": 501}, "turns: 501 is greater than 500"),
        ({"turns": True}, "turns: true is not a whole number"),
        ({"temperature": 3}, "temperature: 3 is greater than 2"),
        ({"temperature": "hot"}, "temperature: 'hot' is not a number"),
        ({"share": 0}, "share: 0 is not greater than 0"),
        ({"network": "yes"}, "network: 'yes' is not true or false"),
        ({"prompt": "x" * 4001}, f"prompt: '{'x' * 59}… is longer than 4000 characters"),
        ({"tools": ["fly"]}, "tools.0: 'fly' is not one of read, write, shell"),
        ({"tools": "read"}, "tools: 'read' is not a list"),
        ({"limits": {"lines": "x"}}, "limits.lines: 'x' is not a whole number"),
        ({"kind": "other"}, "kind: 'other' is not only"),
        ({"command": ""}, "command: is empty"),
        ({"depth": 10}, "depth: 10 is not less than 10"),
    ],
)
def test_settings_with_a_bad_value_are_refused_by_its_name(settings, message):
    assert problems_text(settings_problems({"command": "run"} | settings, SCHEMA)) == message


def test_settings_without_a_required_value_are_refused():
    assert settings_problems({}, SCHEMA) == {"command": "is required"}


def test_settings_with_several_faults_name_each():
    found = settings_problems({"effort": "hgh", "turns": 0}, SCHEMA)
    assert list(found) == ["command", "effort", "turns"]


@pytest.mark.parametrize("closed", [True, False])
def test_settings_with_an_unknown_name_are_refused(closed):
    schema = {"type": "object", "properties": {"seed": {"type": "integer"}, "depth": {}}}
    schema |= {"additionalProperties": False} if closed else {}
    assert settings_problems({"sead": 1}, schema) == {
        "sead": "is no setting; there are depth, seed"
    }


def test_settings_of_a_schema_that_allows_more_may_have_other_names():
    schema = {"properties": {"seed": {}}, "additionalProperties": {"type": "integer"}}
    assert settings_problems({"other": 1}, schema) == {}
    assert settings_problems({"other": "x"}, schema) == {"other": "'x' is not a whole number"}


@pytest.mark.parametrize("settings", [[], "text", None, 3])
def test_settings_that_are_no_object_are_refused(settings):
    assert "is not an object" in settings_problems(settings, {})["settings"]


def test_settings_that_json_cannot_hold_are_refused():
    assert "not JSON" in settings_problems({"seed": float("nan")}, {})["settings"]


def test_settings_without_a_schema_may_be_any_object():
    assert settings_problems({"steps": [1, {"a": None}]}, {}) == {}


def test_settings_of_the_model_agree_with_its_schema():
    given = Settings(command="run", tools=[], thinking="long").model_dump()
    assert settings_problems(given, SCHEMA) == {}


def test_schema_problem_of_a_bad_schema_is_named():
    assert schema_problem(SCHEMA) == ""
    assert "'text'" in schema_problem({"properties": {"a": {"type": "text"}}})


def test_settings_fields_have_the_kind_label_default_and_bounds_of_the_schema():
    fields = settings_fields(SCHEMA)
    kinds = {name: type(field).__name__ for name, field in fields.items()}
    assert kinds == {
        "command": "CharField",
        "effort": "TypedChoiceField",
        "thinking": "TypedChoiceField",
        "turns": "IntegerField",
        "temperature": "FloatField",
        "share": "FloatField",
        "network": "BooleanField",
        "reasoning": "BooleanField",
        "prompt": "TextField",
        "tools": "MultipleChoiceField",
        "arguments": "LinesField",
        "depth": "IntegerField",
        "limits": "JSONField",
        "kind": "TypedChoiceField",
    }
    command, turns, depth = fields["command"], fields["turns"], fields["depth"]
    assert command.required and command.help_text == "Program to start."
    assert (command.label, command.max_length) == ("Command", 100)
    assert (turns.initial, turns.min_value, turns.max_value) == (20, 1, 500)
    assert (depth.min_value, depth.max_value) == (1, 9)
    assert [value for value, _ in fields["effort"].choices] == ["low", "medium", "high"]
    assert [value for value, _ in fields["thinking"].choices] == ["", "brief", "long"]
    assert isinstance(fields["prompt"].widget, forms.Textarea)
    assert not isinstance(command.widget, forms.Textarea)


def submitted(**values: Any) -> SettingsForm:
    """Return the form with what a browser sends of its initial values, and of `values`."""
    data = {
        "command": "run",
        "effort": "medium",
        "thinking": "",
        "turns": "20",
        "temperature": "",
        "share": "0.5",
        "reasoning": "on",
        "prompt": "",
        "tools": ["read", "write"],
        "arguments": "",
        "depth": "3",
        "limits": '{"lines": 10}',
        "kind": "only",
    }
    data |= values
    return SettingsForm(SCHEMA, {key: value for key, value in data.items() if value is not None})


def test_settings_form_as_it_is_shown_returns_only_what_differs_from_the_defaults():
    form = submitted()
    assert form.is_valid(), form.errors
    assert form.settings() == {"command": "run"}


def test_settings_form_returns_each_change_in_its_type():
    form = submitted(
        effort="high",
        thinking="brief",
        turns="40",
        temperature="0.5",
        network="on",
        reasoning=None,
        prompt=" two\r\nlines ",
        tools=["shell"],
        arguments="--fast\n\n two words \n",
        limits='{"lines": 3}',
    )
    assert form.is_valid(), form.errors
    assert form.settings() == {
        "command": "run",
        "effort": "high",
        "thinking": "brief",
        "turns": 40,
        "temperature": 0.5,
        "network": True,
        "reasoning": False,
        "prompt": " two\nlines ",
        "tools": ["shell"],
        "arguments": ["--fast", "two words"],
        "limits": {"lines": 3},
    }
    assert settings_problems(form.settings(), SCHEMA) == {}


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ({"command": ""}, "command", "required"),
        ({"effort": "hgh"}, "effort", "hgh is not one of the available choices"),
        ({"turns": "0"}, "turns", "greater than or equal to 1"),
        ({"share": "0"}, "share", "0.0 is not greater than 0"),
        ({"limits": '{"lines": "x"}'}, "limits", "'x' is not a whole number"),
        ({"limits": "{"}, "limits", "valid JSON"),
        ({"tools": ["fly"]}, "tools", "fly is not one of the available choices"),
    ],
)
def test_settings_form_with_a_bad_value_shows_it_at_the_field(values, name, message):
    form = submitted(**values)
    assert not form.is_valid()
    assert message in " ".join(form.errors[name])


def test_settings_form_of_a_harness_without_a_schema_takes_any_object():
    form = SettingsForm({}, {"settings": '{"seed": 3}'})
    assert form.is_valid() and form.settings() == {"seed": 3}
    assert SettingsForm({}, {"settings": ""}).settings() == {}
    assert not SettingsForm({}, {"settings": "[1]"}).is_valid()


def test_settings_form_of_a_harness_without_settings_has_no_field():
    form = SettingsForm(Nothing.model_json_schema(), {})
    assert not form.fields and form.is_valid() and form.settings() == {}


def test_settings_form_that_is_not_valid_has_no_settings():
    with pytest.raises(ValueError, match="command"):
        submitted(command="").settings()


def test_settings_form_of_an_empty_choice_calls_it_the_default():
    schema = {"properties": {"effort": {"enum": ["", "low"], "default": ""}}}
    assert settings_fields(schema)["effort"].choices == [("", "Default"), ("low", "low")]
    assert SettingsForm(schema, {"effort": ""}).settings() == {}
    assert SettingsForm(schema, {"effort": "low"}).settings() == {"effort": "low"}


def test_settings_form_with_initial_settings_shows_them():
    form = SettingsForm(SCHEMA, initial={"effort": "high", "arguments": ["a", "b"]})
    assert '<option value="high" selected>' in str(form["effort"])
    assert "a\nb</textarea>" in str(form["arguments"])


def test_settings_of_the_cleaned_values_keeps_true_apart_from_one():
    schema = {"properties": {"n": {"type": "integer", "default": 1}}}
    assert settings_of({"n": True}, schema) == {"n": True}
    assert settings_of({"n": 1}, schema) == {}
