from __future__ import annotations

from pathlib import Path

import pytest

from runners.gateway.providers import BadProvider, Price, Provider, load
from runners.gateway.wire import Usage

MILLION = 1_000_000


def test_cost_by_an_own_price_counts_cached_tokens_at_theirs() -> None:
    price = Price(input=3, output=15, cached=0.3, cache_write=3.75)
    usage = Usage(10 * MILLION, MILLION, 4 * MILLION, 2 * MILLION)
    assert price.cost_usd(usage) == pytest.approx(4 * 3 + 4 * 0.3 + 2 * 3.75 + 15)


def test_cost_by_published_prices_equals_the_hand_computation() -> None:
    """Prices of claude-opus-4-5: 5 dollars in, 0.5 cached, 6.25 written, 25 out per million."""
    provider = load()["anthropic"]
    usage = Usage(100_000, 10_000, 60_000, 20_000)
    expected = (20_000 * 5 + 60_000 * 0.5 + 20_000 * 6.25 + 10_000 * 25) / MILLION
    assert provider.cost_usd("claude-opus-4-5", usage) == pytest.approx(expected)


def test_cost_of_a_model_without_price_is_unknown_and_of_a_local_one_nothing() -> None:
    providers = load()
    assert providers["anthropic"].cost_usd("unheard-of", Usage(1, 1)) is None
    assert providers["local"].cost_usd("unheard-of", Usage(1, 1)) == 0


def test_load_of_a_further_file_adds_and_replaces(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(
        '[mine]\nwires = ["messages"]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[local]\nwires = ["responses"]\nbase_url = "http://127.0.0.1:1/v1"\n'
    )
    found = load(file, tmp_path / "absent.toml")
    assert found["mine"].wires == ("messages",) and found["local"].wires == ("responses",)
    assert "anthropic" in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "providers.toml"),
        ("a = 1", "a should be a table"),
        ('[a]\nwires = ["smoke"]\nbase_url = "http://h/v1"', "unknown: smoke"),
        ('[a]\nwires = ["messages"]\nbase_url = "h"', "base_url"),
        ('[a]\nwires = ["messages"]\nbase_url = "http://h"\nkey = "x"', "key"),
        ('[a]\nname = "b"\nwires = ["messages"]\nbase_url = "http://h"', "name"),
    ],
)
def test_load_of_a_malformed_file_names_file_and_field(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(text)
    with pytest.raises(BadProvider) as caught:
        load(file)
    assert message in str(caught.value) and str(file) in str(caught.value)


def test_key_comes_from_variable_or_file_and_its_absence_names_them(tmp_path: Path) -> None:
    provider = load()["anthropic"]
    assert provider.key({"ANTHROPIC_API_KEY": " sk \n"}) == "sk"
    with pytest.raises(LookupError, match="ANTHROPIC_API_KEY is not set"):
        provider.key({})
    assert load()["local"].key({}) == ""
    file = tmp_path / "key"
    from_file = provider.model_copy(update={"key_file": str(file)})
    with pytest.raises(LookupError, match="No such file"):
        from_file.key({})
    file.write_text("sk-2\n")
    assert from_file.key({}) == "sk-2"


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.2:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.0.0.7:8000/v1", False),
        ("https://127.0.0.1.example.org/v1", False),
        ("https://api.anthropic.com", False),
    ],
)
def test_local_provider_has_an_address_of_this_machine(address: str, local: bool) -> None:
    assert Provider(name="p", wires=("messages",), base_url=address).is_local is local
