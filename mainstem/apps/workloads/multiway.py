"""The twelve window queries of the evaluation of multiway aggregation, as data.

Names have three letters: what is varied (keys, windows per event, function), small or capital for less or more of it,
and whether the order of the events matters to the result (OS) or not (OI).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """One window: over a data set, per key, of one aggregate."""

    name: str
    dataset: str  # a module of mainstem.apps
    event: str
    size: int
    advance: int
    by: str
    aggregate: str
    of: str | None = None  # the field that is aggregated; None: events are counted
    where: str | None = None  # a derived column: only events with it count
    about: str = ""

    @property
    def order_sensitive(self) -> bool:
        return self.name.endswith("OS")


def _meters(name: str, size: int, advance: int, aggregate: str, of: str | None, about: str) -> Query:
    return Query(name, "meters", "Reading", size, advance, "meter", aggregate, of, about=about)


def _comments(
    name: str, size: int, advance: int, aggregate: str, of: str | None, where: str | None, about: str
) -> Query:
    return Query(name, "comments", "Comment", size, advance, "song", aggregate, of, where, about)


QUERIES = {
    query.name: query
    for query in (
        _meters("k-OS", 30, 3, "first", "wh", "first reading; few keys"),
        _comments("K-OS", 30, 3, "first", "user", None, "who commented first; many keys"),
        _meters("w-OS", 20, 2, "first", "wh", "first reading; 10 windows per event"),
        _meters("W-OS", 40, 2, "first", "wh", "first reading; 20 windows per event"),
        _comments("f-OS", 20, 2, "first", "user", "has_email", "first comment with an e-mail address"),
        _comments("F-OS", 20, 2, "first", "user", "has_address", "first comment with an e-mail or IP address"),
        _meters("k-OI", 30, 3, "count", None, "readings; few keys"),
        _comments("K-OI", 30, 3, "count", None, None, "comments; many keys"),
        _meters("w-OI", 20, 2, "avg", "wh", "mean consumption; 10 windows per event"),
        _meters("W-OI", 40, 2, "avg", "wh", "mean consumption; 20 windows per event"),
        _comments("f-OI", 20, 2, "count", None, "has_email", "comments with an e-mail address"),
        _comments("F-OI", 20, 2, "count", None, "has_address", "comments with an e-mail or IP address"),
    )
}
