"""Agent that is a bare model in a plain loop, to compare with harnesses.

The model gets six tools and works until it ends its turn without a call, or a budget is spent.
With several samples each works on its own copy, also at the same time, and the best is kept.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Harness, Spec
from runners.agents._model_loop.conversations import (
    BudgetSpent,
    Conversation,
    ModelFailed,
    Options,
    Reply,
    Result,
    conversation,
)
from runners.agents._model_loop.samples import Best, Sample, create
from runners.agents._model_loop.tools import TOOL_NAMES, ToolName, Tools
from runners.agents._parts.settings import checked

if TYPE_CHECKING:
    from runners.session.session import AgentSession, ModelAccess

HARNESS = Harness("Model loop", wires=("messages", "responses", "chat-completions"))

_DESCRIPTION = "A bare model in a plain loop, with tools to read, write, edit, run and check."
SPECS = (
    Spec(
        slug="model-loop-claude",
        title="Model loop, Claude Sonnet 5",
        description=_DESCRIPTION,
        provider="anthropic",
        model="claude-sonnet-5",
    ),
    Spec(
        slug="model-loop-gpt",
        title="Model loop, GPT-5.6",
        description=_DESCRIPTION,
        provider="openai",
        model="gpt-5.6",
    ),
    Spec(
        slug="model-loop-local",
        title="Model loop, local model",
        description=f"{_DESCRIPTION} The model is served on this machine, with no key.",
        provider="local",
        model="qwen3-coder",
    ),
)

SYSTEM = """\
You optimise compute kernels. Use the tools: `check` submits the target file for a verdict, and
`profile` shows where its time goes. End your turn without a tool call only when you are done."""
PROMPT = """\
Read TASK.md in this folder: it has the task, the calling convention, the hardware, the cases and
your budget. Make {target} correct first, then as fast as you can. It is judged by the tool `check`,
which costs one of your {rounds} rounds. Your best round counts. Stop when nothing more can be
gained or your rounds are spent."""
CUT = "Your answer was cut at {limit} tokens, the limit of this run."


class Settings(BaseModel):
    """Settings of the model loop."""

    model_config = ConfigDict(extra="forbid")

    wire: Literal["auto", "messages", "responses", "chat-completions"] = Field(
        "auto", description="Wire format; auto is the best that the provider has."
    )
    effort: Literal["", "minimal", "low", "medium", "high", "xhigh", "max"] = Field(
        "", description="Effort of the model's reasoning; empty for the default."
    )
    temperature: float | None = Field(
        None, ge=0, le=2, description="Empty leaves it to the provider."
    )
    max_turns: int = Field(100, ge=1, le=2000, description="Answers of the model in a sample.")
    max_output_tokens: int = Field(
        32_000, ge=256, le=1_000_000, description="Tokens of one answer, reasoning included."
    )
    tools: list[ToolName] = Field(list(TOOL_NAMES), min_length=1, description="What it may use.")
    extra_prompt: str = Field("", max_length=20_000, description="Added to the instruction.")
    samples: int = Field(
        1, ge=1, le=32, description="Independent attempts that share the rounds; the best is kept."
    )
    parallel: int = Field(1, ge=1, le=8, description="Samples that work at the same time.")


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Let the model work. A budget that is spent ends it in order."""
    loop = Loop(session, checked(Settings, settings))
    try:
        loop.run()
    except ModelFailed as error:
        sys.exit(str(error))  # the last line of stderr is the reason of a run


class Loop:
    """The samples of one run."""

    def __init__(self, session: AgentSession, settings: Settings) -> None:
        assert session.model, "a harness with wires gets a model"
        self._session = session
        self._model: ModelAccess = session.model
        self._settings = settings
        self._wire = self._model.wires[0] if settings.wire == "auto" else settings.wire
        self._over = threading.Event()

    def run(self) -> None:
        """Run every sample. Raises: ModelFailed, ArenaFailed."""
        count = self._settings.samples
        if count == 1:
            self._work(Sample(1, self._session), "")
            return
        samples = create(self._session, count)
        with ThreadPoolExecutor(self._settings.parallel, "sample") as pool:
            results = list(pool.map(self._sample, samples))
        self._keep_best(samples, results)

    def _sample(self, sample: Sample) -> str:
        """Run one sample in a span of its own; return why its model failed, empty if it did not."""
        if self._over.is_set():
            return ""
        session, problem = sample.session, ""
        span = session.begin_span("subagent", sample.name.capitalize())
        session.span = span
        try:
            self._work(sample, span)
            if sample.unchecked() and session.rounds_left and not self._over.is_set():
                session.check("as it was left")
        except ModelFailed as error:
            problem = str(error)
            session.log(problem, level="error")
        except BaseException:
            self._over.set()
            raise
        best = sample.best()
        session.end_span(span, "subagent", ok=best is not None, message=problem or _text(best))
        return problem

    def _work(self, sample: Sample, parent: str) -> None:
        """Let the model work on one sample. Raises: ModelFailed, ArenaFailed."""
        session, settings = sample.session, self._settings
        tools = Tools(session, settings.tools)
        options = Options(
            system=SYSTEM,
            tools=tools.specs,
            max_output_tokens=settings.max_output_tokens,
            effort=settings.effort or None,
            temperature=settings.temperature,
        )
        model = conversation(self._wire, self._model, options)
        results: list[Result] = []
        text = self._prompt(session)
        for turn in range(1, settings.max_turns + 1):
            if self._over.is_set():
                return
            reply = self._ask(model, results, text)
            if reply is None:
                return
            session.span = session.begin_span("turn", f"Turn {turn}", parent=parent)
            self._record(session, reply)
            text = CUT.format(limit=settings.max_output_tokens) if reply.stop == "length" else ""
            results = [
                tools.refuse(call, f"Not done. {text}") if text else tools.answer(call)
                for call in reply.calls
            ]
            session.end_span(session.span, "turn")
            session.span = parent
            if not results and not text:
                return
        session.message(f"All {settings.max_turns} turns of this sample are used.", role="system")

    def _prompt(self, session: AgentSession) -> str:
        text = PROMPT.format(target=session.brief.subject, rounds=session.rounds_left)
        extra = self._settings.extra_prompt
        text = text.replace("\n", " ")
        return f"{text}\n\n{extra}" if extra else text

    def _ask(self, model: Conversation, results: list[Result], text: str) -> Reply | None:
        """Return the model's answer; None where a budget is spent. Raises: ModelFailed."""
        try:
            return model.ask(results, text)
        except BudgetSpent:
            self._over.set()
            return None

    def _record(self, session: AgentSession, reply: Reply) -> None:
        session.message(
            reply.text,
            reasoning=reply.reasoning,
            model=self._model.name,
            stop_reason=reply.stop_reason,
        )

    def _keep_best(self, samples: list[Sample], problems: list[str]) -> None:
        """Put the best sample's source into the workspace. Raises: ModelFailed if all failed."""
        found = [(best, sample) for sample in samples if (best := sample.best())]
        listed = "\n".join(f"- {s.name}: {_text(s.best())}" for s in samples)
        if found:
            best, sample = max(found, key=lambda each: each[0].low)
            self._session.write(self._session.brief.target, best.source)
            self._session.message(f"{listed}\n\n{sample.name.capitalize()} is kept.", role="system")
        elif all(problems):
            raise ModelFailed(problems[-1])
        else:
            self._session.message(f"{listed}\n\nNo sample passed.", role="system")


def _text(best: Best | None) -> str:
    if best is None:
        return "no round passed"
    return "passed" if best.speedup is None else f"{best.speedup:.3f}x"
