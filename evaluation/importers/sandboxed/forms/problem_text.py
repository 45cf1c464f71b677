"""UNTRUSTED: a problem of KernelBench's form, written around functions of a suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CASES = "PUBLISHED_CASES"
_TEXT = '''\
{part}


# Written by the importer, from {origin}.

import torch


class Model(torch.nn.Module):
    """{doc}"""

{init}    def forward(self, {names}):
{body}


{constants}
{cases}

def get_inputs():
{inputs}


def get_init_inputs():
{init_inputs}
'''


@dataclass(frozen=True)
class ProblemText:
    """The parts of a problem; bodies of functions are lines without indentation."""

    part: str
    """Text of the suite's file."""
    origin: str
    doc: str
    settings: Sequence[str]
    """Names of what `get_init_inputs` returns, which the module holds."""
    names: Sequence[str]
    """Names of the inputs."""
    body: Sequence[str]
    constants: Mapping[str, object]
    cases: Mapping[str, Mapping[str, object]]
    """Other published values of the constants, by name of the case."""
    inputs: Sequence[str]
    init_inputs: Sequence[str]

    def __str__(self) -> str:
        takes = "".join(f", {name}" for name in self.settings)
        held = [f"self.{name} = {name}" for name in self.settings]
        init = [f"    def __init__(self{takes}):", _indented(["super().__init__()", *held], 8)]
        doc = self.doc.replace("\\", "/").replace('"""', "'''").strip()
        return _TEXT.format(
            part=self.part.strip("\n"),
            origin=self.origin,
            doc=doc.replace("\n", "\n    "),
            init="\n".join(init) + "\n\n" if self.settings else "",
            names=", ".join(self.names),
            body=_indented(self.body, 8),
            constants="\n".join(f"{name} = {value!r}" for name, value in self.constants.items()),
            cases=f"{CASES} = {dict(self.cases)!r}\n" if self.cases else "",
            inputs=_indented(self.inputs, 4),
            init_inputs=_indented(self.init_inputs, 4),
        )


def _indented(lines: Sequence[str], count: int) -> str:
    return "\n".join(" " * count + line for line in lines)
