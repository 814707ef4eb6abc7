"""Engines and options that do not exist: each message names the thing and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.apps import ledger
from mainstem.engine.options import strategy_of
from mainstem.errors import ProgramError

NESTED: dict[str, Any] = {"engine": "nested"}
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown engine": ({"engine": "locks"}, ("no engine 'locks'", "lock", "tpg", "oracle")),
    "unknown option": ({"engine": "tpg", "order": "bfs"}, ("'tpg' has no option 'order'", "drop it")),
    "option of another engine": (
        {"engine": "lock", "explore": "bfs"},
        ("'lock' has no option 'explore'", "engine='tpg'"),
    ),
    "option without an engine": ({"sharing": "nothing"}, ("'auto' has no option 'sharing'", "engine='chains'")),
    "option of the serial engine": ({"engine": "serial", "unit": "op"}, ("'serial' has no option", "engine='tpg'")),
    "unknown explore": ({"engine": "tpg", "explore": "random"}, ("explore='random'", "ns, bfs, dfs")),
    "unknown unit": ({"engine": "tpg", "unit": "ops"}, ("unit='ops'", "op, group")),
    "unknown abort": ({"engine": "tpg", "abort": True}, ("abort=True", "eager, lazy")),
    "unknown sharing": ({"engine": "chains", "sharing": "all"}, ("sharing='all'", "nothing, everything")),
    "no partitions": ({"engine": "pat", "partitions": 0}, ("partitions=0", "positive")),
    "half a partition": ({"engine": "pat", "partitions": 0.5}, ("partitions=0.5", "positive")),
    "no threads": ({"engine": "lock", "threads": 0}, ("threads=0", "positive")),
    "negative threads": ({"engine": "auto", "threads": -2}, ("threads=-2", "all cores")),
    "threads in words": ({"engine": "tpg", "threads": "two"}, ("threads='two'", "positive")),
    "nothing to nest": (NESTED, ("needs groups", "groups={")),
    "empty groups": ({**NESTED, "groups": {}}, ("needs groups", "groups={")),
    "groups as a list": ({**NESTED, "groups": [("deposit", "lock")]}, ("needs groups", "groups={")),
    "one function in two groups": (
        {**NESTED, "groups": {("deposit", "transfer"): "lock", "transfer": "tpg"}},
        ("'transfer' is in two groups", "once"),
    ),
    "group of an unknown function": (
        {**NESTED, "groups": {"depositt": "lock", "transfer": "tpg"}},
        ("no function 'depositt'", "deposit, transfer"),
    ),
    "nested in nested": ({**NESTED, "groups": {"deposit": {**NESTED, "groups": {"transfer": "tpg"}}}}, ("'nested'",)),
    "oracle in a group": ({**NESTED, "groups": {"deposit": "oracle"}}, ("can't run with engine 'oracle'", "parallel")),
    "auto in a group": ({**NESTED, "groups": {"deposit": "auto"}}, ("can't run with engine 'auto'", "parallel")),
    "unknown engine in a group": ({**NESTED, "groups": {"deposit": "tgp"}}, ("no engine 'tgp'", "tpg")),
    "bad option in a group": (
        {**NESTED, "groups": {"deposit": {"engine": "tpg", "abort": "never"}}},
        ("abort='never'", "eager, lazy"),
    ),
    "a number as a group": ({**NESTED, "groups": {5: "lock"}}, ("groups= has 5", "groups={")),
    "a number in a group": ({**NESTED, "groups": {("deposit", 5): "lock"}}, ("groups= has ('deposit', 5)", "groups={")),
    "a number as an engine": ({**NESTED, "groups": {"deposit": 5}}, ("'deposit' has 5", "groups={")),
    "options without an engine": ({**NESTED, "groups": {"deposit": {"explore": "ns"}}}, ("'deposit' has", "groups={")),
    "a number as an option": (
        {**NESTED, "groups": {"deposit": {"engine": "tpg", 5: 1}}},
        ("'deposit' has an option 5", "groups={"),
    ),
    "keys and functions": ({**NESTED, "groups": {"hot keys": "tpg", "deposit": "lock"}}, ("'hot keys'", "cold keys")),
    "only hot keys": ({**NESTED, "groups": {"hot keys": "tpg"}}, ("'cold keys'", "groups={")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_message_names_the_thing_and_the_remedy(name: str) -> None:
    options, fragments = REFUSED[name]
    with pytest.raises(ProgramError) as caught:
        ledger.app.run(ledger.generate(10), **options)
    message = str(caught.value)
    assert not [f for f in fragments if f not in message], message
    assert caught.value.remedy, f"no remedy: {message}"


def test_labels_tell_strategies_apart() -> None:
    assert strategy_of("tpg", explore="dfs", abort="lazy").label == "tpg(dfs, op, lazy)"
    assert strategy_of("chains").label == "chains(nothing)"
    assert strategy_of("pat", partitions=3).label == "pat"
    nested = strategy_of("nested", groups={("deposit",): "components", "transfer": {"engine": "tpg", "unit": "group"}})
    assert nested.label == "nested(deposit: components; transfer: tpg(ns, group, eager))"


def test_statistics_say_what_ran() -> None:
    options: dict[str, Any] = {"engine": "tpg", "explore": "bfs", "threads": 2, "jit": False}
    result = ledger.app.run(ledger.generate(40), initial=ledger.initial(), batch=20, **options)
    assert [(b.engine, b.threads) for b in result.stats.batches] == [("tpg(bfs, op, eager)", 2)] * 2
