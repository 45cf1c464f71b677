"""The models that answered a run's calls, where they are others than the one that was asked for.

A provider may route a call to another model, and a local server answers whatever name it is asked
for. The gateway records the name in each answer; boards show a run by it.
"""

from __future__ import annotations

import re

from arena.catalog.models import EXTERNAL, Agent
from arena.runs.models import Event, Run

MAX_MODELS = 5
SEPARATOR = ", "
HTTP_OK = 200
_SNAPSHOT = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|\d\d-\d\d|\d{3,4})$")
"""A date or a number at the end: `-20250101`, `@20250101`, `-2025-01-01`, `-05-20`, `-0613`."""
_REGION = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
"""Region and maker, as in `us.anthropic.claude-...`."""
_TAG = re.compile(r"(?::latest|:free|-latest|-v\d+:\d+|\.gguf)$")


def is_other(asked: str, answered: str) -> bool:
    """Return whether an answer names another model than its request.

    The prefix of a provider makes no other model, nor does the date of a snapshot that only one of
    both names: `gpt-x` may be answered by `openai/gpt-x-2025-01-01`.
    """
    one, other = _plain(asked), _plain(answered)
    return one != other and _SNAPSHOT.sub("", one) != other and one != _SNAPSHOT.sub("", other)


def _plain(name: str) -> str:
    """Return a name without what providers add to it, in one notation."""
    name = _REGION.sub("", name.casefold().rpartition("/")[2])
    return _TAG.sub("", name).replace("_", "-").replace(".", "-")


def answered_by(run_id: str, agent: Agent) -> str:
    """Return the names of the models that answered, if one is another than the agent's.

    The calls of an agent that runs elsewhere pass no gateway: its messages name the models.
    """
    if not agent.model:
        return ""
    events = Event.objects.filter(run=run_id).order_by()
    if agent.adapter == EXTERNAL:
        events = events.filter(kind="message").exclude(body__role="user")
    else:
        events = events.filter(kind="model_call", body__status=HTTP_OK)
    return joined(agent.model, set(events.values_list("body__model", flat=True).distinct()))


def joined(asked: str, names: set[str]) -> str:
    """Return the names of answers as one text; empty where all are of the model asked for."""
    named = sorted(name[:100] for name in names if name)
    if not any(is_other(asked, name) for name in named):
        return ""
    return SEPARATOR.join(named[:MAX_MODELS])


def keep_answered(agent: Agent) -> None:
    """Bring the models that answered an agent up to date with its runs that count."""
    if not agent.model:
        return
    counted = Run.objects.counted().filter(agent=agent).order_by()
    texts = set(counted.values_list("answered_by", flat=True).distinct())
    names = {name for text in texts for name in text.split(SEPARATOR) if name}
    if names and counted.filter(answered_by="", tokens__gt=0).exists():
        names.add(agent.model)
    text = SEPARATOR.join(sorted(names)[:MAX_MODELS])
    Agent.objects.filter(pk=agent.pk).exclude(answered_by=text).update(answered_by=text)
