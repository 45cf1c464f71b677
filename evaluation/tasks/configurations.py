"""Limits, domain and cases of an operator, as `task.toml` or `gpu.toml` states them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation.device_kind import CPU, GPU
from evaluation.shapes import WHOLE as WHOLE_DTYPES
from evaluation.shapes import symbols_of
from evaluation.tasks.domain import Choices, Domain, LogUniform, Range
from evaluation.tasks.expressions import Expression
from evaluation.tasks.tolerance import UNIT_ROUNDOFF
from evaluation.tasks.toml_reader import Table
from evaluation.tasks.unseen import KINDS as UNSEEN_KINDS
from evaluation.tasks.unseen import unseen_cases
from evaluation.types import Argument, Case, Split

KINDS = ("nominal", *dict.fromkeys(UNSEEN_KINDS))
SEEN_SHARE = 3
"""On a CPU, a model's configuration takes this part of the limit, so that larger cases fit too."""
MIN_SHRUNK = 32
"""Size down to which one symbol is halved before the next one is."""


@dataclass(frozen=True)
class Limits:
    """Limits: seconds of a build or gate, memory of a process, and tensors of a case."""

    seconds: float
    memory_mb: int
    case_mb: int


DEFAULT_LIMITS = {CPU: Limits(120.0, 4096, 8), GPU: Limits(120.0, 16384, 1024)}

Configurations = tuple[Limits, Domain, tuple[Case, ...]]


def read_configurations(
    table: Table, arguments: tuple[Argument, ...], kind: str, name: str
) -> Configurations:
    """Return limits, domain and cases; those of a table `gpu` on a GPU, as far as it has them.

    Raises: TaskError.
    """
    source = dict.fromkeys(("limits", "domain", "models"), table)
    larger = table.table("gpu") if table.has("gpu") else None
    if larger:
        for key in source:
            if kind != GPU:
                larger.discard(key)
            elif larger.has(key):
                table.discard(key)
                source[key] = larger
    short = source["models"].has("models")
    if short and kind == GPU and source["limits"] is table:
        table.discard("limits")  # they are of a processor
    if short and not source["limits"].has("limits"):
        limits = DEFAULT_LIMITS[kind]
    else:
        default = DEFAULT_LIMITS[kind] if short else None
        limits = _limits(source["limits"].table("limits"), default)
    domain = _domain(source["domain"].table("domain"), table, arguments, limits)
    if short:
        models, shrinks = source["models"].table("models"), _shrinks(table, domain)
        seen = _models(models, domain, shrinks, kind)
        cases = (*seen, *unseen_cases(domain, seen, name, kind))
    else:
        cases = _cases(table, domain)
    if larger:
        larger.finish()
    return limits, domain, cases


def _limits(table: Table, default: Limits | None) -> Limits:
    def read(key: str, kind: str) -> float:
        if default and not table.has(key):
            return float(getattr(default, key))
        return table.positive(key) if kind == "number" else table.integer(key)

    limits = Limits(
        float(read("seconds", "number")), int(read("memory_mb", "")), int(read("case_mb", ""))
    )
    table.finish()
    return limits


def _domain(table: Table, top: Table, arguments: tuple[Argument, ...], limits: Limits) -> Domain:
    dtypes = table.strings("dtypes")
    for dtype in dtypes:
        if dtype not in UNIT_ROUNDOFF and dtype not in WHOLE_DTYPES:
            known = ", ".join((*UNIT_ROUNDOFF, *WHOLE_DTYPES))
            table.fail("dtypes", f"must be of {known}, got {dtype!r}")
    if len(dtypes) > 1 and any(dtype in WHOLE_DTYPES for dtype in dtypes):
        table.fail("dtypes", "one dtype of whole numbers stands alone; give arguments their own")
    derived, required = _derived(top), _required(top)
    scalars = (a.name for a in arguments if a.role == "scalar")
    others = (s for e in (*derived.values(), *required) for s in e.symbols)
    bounds = (bound for a in arguments for bound in a.bounds if isinstance(bound, str))
    used = dict.fromkeys((*symbols_of(arguments), *scalars, *bounds, *others))
    symbols = {name: _range(table, name) for name in used if name not in derived}
    table.finish()
    return Domain(dtypes, symbols, arguments, limits.case_mb * 2**20, derived, required)


def _derived(table: Table) -> dict[str, Expression]:
    if not table.has("derived"):
        return {}
    item = table.table("derived")
    derived: dict[str, Expression] = {}
    for name in item.names():
        if not name.isidentifier():
            item.fail(name, "must be an identifier")
        derived[name] = _expression(item, name, item.string(name))
    for number, (name, expression) in enumerate(derived.items()):
        later = [s for s in expression.symbols if s in [*derived][number:]]
        if later:
            item.fail(name, f"uses {later[0]}, which is derived later; put that one first")
    return derived


def _required(table: Table) -> tuple[Expression, ...]:
    if not table.has("require"):
        return ()
    return tuple(_expression(table, "require", text) for text in table.strings("require"))


def _expression(table: Table, key: str, text: str) -> Expression:
    try:
        return Expression.read(text)
    except ValueError as error:
        table.fail(key, str(error))


def _range(table: Table, name: str) -> Range:
    if table.is_list(name):  # short for log_uniform
        return _log_uniform(table, name, 1)
    if not table.has(name):
        other = f"; the domain also has {', '.join(table.names())}" if table.names() else ""
        advice = f"add its sizes, such as `{name} = [1, 4096]`, or a table with `choices`"
        table.fail(name, f"missing; {advice}, or correct the name where task.toml uses it{other}")
    item = table.table(name)
    if item.has("choices"):
        values = item.numbers("choices")
        item.finish()
        return Choices(values)
    multiple = item.integer("multiple_of") if item.has("multiple_of") else 1
    found = _log_uniform(item, "log_uniform", multiple)
    item.finish()
    return found


def _log_uniform(item: Table, key: str, multiple: int) -> LogUniform:
    bounds = item.numbers(key)
    sizes = [bound for bound in bounds if isinstance(bound, int)]
    if len(bounds) != 2 or len(sizes) != 2 or not 1 <= sizes[0] < sizes[1]:
        item.fail(key, f"must be two sizes [low, high] with 1 <= low < high, got {bounds}")
    return LogUniform(sizes[0], sizes[1], multiple)


def _cases(table: Table, domain: Domain) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    for item in table.tables("cases"):
        case = _case(item, domain)
        if case.name in cases:
            item.fail("name", f"{case.name!r} is the name of an earlier case; choose another")
        cases[case.name] = case
    for split in (Split.SEEN, Split.UNSEEN):
        if all(case.split is not split for case in cases.values()):
            table.fail("cases", f"none is {split}; add cases that an agent sees, and unseen ones")
    return tuple(cases.values())


def _case(item: Table, domain: Domain) -> Case:
    name, kind = item.string("name"), item.option("kind", KINDS)
    split = Split(item.option("split", (Split.SEEN, Split.UNSEEN)))
    dtype = item.option("dtype", domain.dtypes)
    case = Case(name, split, kind, dtype, _symbols(item, domain))
    if not domain.fits(case):
        item.fail("name", f"{name!r} is larger than limits.case_mb")
    item.finish()
    return case


def _symbols(item: Table, domain: Domain) -> dict[str, int | float]:
    """Return the values of all symbols of a configuration, derived ones included."""
    symbols = {symbol: item.number(symbol) for symbol in domain.symbols}
    for symbol, values in domain.symbols.items():
        if not values.holds(symbols[symbol]):
            item.fail(symbol, f"{symbols[symbol]!r} lies outside the domain, {values}")
    if problem := domain.problem(symbols):
        item.fail("require", problem)
    return domain.with_derived(symbols)


def _shrinks(table: Table, domain: Domain) -> tuple[str, ...]:
    sizes = tuple(s for s, values in domain.symbols.items() if isinstance(values, LogUniform))
    if not table.has("shrinks"):
        return sizes
    named = table.strings("shrinks")
    if unknown := [name for name in named if name not in sizes]:
        table.fail("shrinks", f"{unknown[0]!r} is not a size of the domain: {', '.join(sizes)}")
    return named


def _models(table: Table, domain: Domain, shrinks: Sequence[str], kind: str) -> tuple[Case, ...]:
    """Return the seen cases, one for each named configuration of a model."""
    cases = []
    for number, name in enumerate(table.names()):
        item = table.table(name)
        if item.has("source"):
            item.string("source")
        dtype = domain.dtypes[number % len(domain.dtypes)]
        if kind == CPU and "float32" in domain.dtypes:
            dtype = "float32"
        if item.has("dtype"):
            dtype = item.option("dtype", domain.dtypes)
        case = Case(name, Split.SEEN, "nominal", dtype, _symbols(item, domain))
        item.finish()
        if kind == CPU:
            case = shrunk(case, domain, shrinks)
        if not domain.fits(case):
            table.fail(name, "is larger than limits.case_mb; name what to shrink, or raise it")
        cases.append(case)
    if not cases:
        table.fail("models", "none is there; add the configurations that agents see")
    return tuple(cases)


def shrunk(case: Case, domain: Domain, shrinks: Sequence[str]) -> Case:
    """Return a case whose sizes are halved, one after the other, until it is a small one."""
    for least in (MIN_SHRUNK, 1):
        for symbol in shrinks:
            while not domain.fits(case, SEEN_SHARE):
                smaller = _halved(case, domain, symbol, least)
                if smaller is None:
                    break
                case = smaller
    return case


def _halved(case: Case, domain: Domain, symbol: str, least: int) -> Case | None:
    """Return a case with about half of one size; None where that is not valid."""
    values = domain.symbols[symbol]
    assert isinstance(values, LogUniform)
    own = {name: case[name] for name in domain.symbols}
    size = int(own[symbol]) // 2 // values.multiple_of * values.multiple_of
    own[symbol] = size
    if size < least or domain.problem(own):
        return None
    return replace(case, symbols=domain.with_derived(own))
