"""The workload of `mainstem.apps.fraud`: payments with planted fraud, late chargebacks, and what must hold at the end.

A stolen card is used for a burst of payments: many in a short time, large ones, mostly at a few merchants that ask no
questions, often from abroad. Most of them are charged back, thousands of events later; so are a few honest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import check, common
from mainstem.apps.workloads.spam import counts_so_far

CARDS, MERCHANTS = 50_000, 2_000
SHADY_EVERY = 50  # every 50th merchant asks no questions
FRAUD = 0.005  # of the payments
BURST_MIN, BURST_MAX = 3, 8  # payments with a stolen card
BURST_GAP_MAX = 12  # events between two of them
AMOUNT_TYPICAL = 2_000  # cents
FRAUD_RAISES = (5, 20)  # times what the card usually pays
AT_SHADY, FROM_ABROAD = 0.7, 0.6  # of the fraud
CHARGED_BACK, CHARGED_BACK_WRONGLY = 0.8, 0.0005  # of the fraud, of honest payments
COUNTRIES = ["DE", "FR", "IT", "ES", "PL", "NL", "AT", "SE", "PT", "CZ"]
CHUNK_ROWS = 1 << 11
DELAY_MAX = 8 * CHUNK_ROWS  # events from a payment to its chargeback; at least a chunk, so that it lies in a later one

FEATURES = (
    "amount",
    "velocity",
    "usual",
    "moved",
    "card_payments",
    "card_chargebacks",
    "merchant_payments",
    "merchant_chargebacks",
)


def initial() -> dict[str, pa.Table]:
    """No card has paid yet."""
    return {}


def generate(
    events: int = 1_000_000,
    *,
    cards: int = CARDS,
    merchants: int = MERCHANTS,
    skew: float = 0.4,
    fraud: float = FRAUD,
    seed: int = 0,
) -> pa.Table:
    """`events` payments and chargebacks in one table: `ts`, `event` and the fields of both (null where not used).

    About a share of `fraud` of the payments is fraudulent; the column `fraud` says which (null for chargebacks). A
    smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, cards, merchants, skew, fraud, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    files: int = common.FILES,
    row_group: int = common.ROW_GROUP,
    progress: Callable[[int], None] | None = None,
    **knobs: Any,
) -> list[Path]:
    """Write what `generate(events, **knobs)` returns into a folder of Parquet files, in the memory of a few chunks."""
    tables = _chunks(events, **common.with_defaults(generate, knobs))
    return common.write_log(path, tables, events, files=files, row_group=row_group, progress=progress)


def training_set(events: pa.Table, outputs: pa.Table) -> pa.Table:
    """One row per payment: its number, what was known when it came, the decision, and whether it was fraud."""
    is_payment = check.kind_codes(events, ["Payment", "Chargeback"]) == 0
    table = outputs.select(["ts", "payment", *FEATURES, "declined"]).filter(pa.array(is_payment))
    return table.append_column("fraud", events["fraud"].filter(pa.array(is_payment)))


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether every event counts once in each table, no cent is lost, and counts in `outputs` are of their moment."""
    is_payment = check.kind_codes(events, ["Payment", "Chargeback"]) == 0
    log = {name: check.numbers(events, name) for name in ("card", "merchant", "amount")}
    paid, back = int(log["amount"][is_payment].sum()), int(log["amount"][~is_payment].sum())
    sums = {
        "Card": {"payments": is_payment.sum(), "spent": paid, "chargebacks": (~is_payment).sum()},
        "Merchant": {
            "payments": is_payment.sum(),
            "earned": paid,
            "chargebacks": (~is_payment).sum(),
            "charged_back": back,
        },
    }
    for table, fields in sums.items():
        for field, wanted in fields.items():
            if (pc.sum(after[table][field]).as_py() or 0) != wanted:
                return False
    as_of = {
        f"{side}_{what}": counts_so_far(log[side], counted) - counted
        for side in ("card", "merchant")
        for what, counted in (("payments", is_payment), ("chargebacks", ~is_payment))
    }
    return check.same_outputs(outputs, np.ones(events.num_rows), amount=log["amount"], **as_of)


@dataclass
class _Claims:
    """Payments that will be charged back."""

    due: np.ndarray  # places in the log
    fields: np.ndarray  # int64[4, n]: payment, card, merchant, amount

    def add(self, due: np.ndarray, fields: np.ndarray) -> None:
        # At most one chargeback per place in the log: of two, the one that was there first.
        both = np.concatenate([self.due, due])
        self.due, kept = np.unique(both, return_index=True)
        self.fields = np.concatenate([self.fields, fields], axis=1)[:, kept]

    def take(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Those before `end`, which are dropped here."""
        cut = int(np.searchsorted(self.due, end))
        due, fields = self.due[:cut], self.fields[:, :cut]
        self.due, self.fields = self.due[cut:], self.fields[:, cut:]
        return due, fields


def _chunks(events: int, cards: int, merchants: int, skew: float, fraud: float, seed: int) -> Iterator[pa.Table]:
    common.share_of("fraud", fraud)
    holders, shops = common.ZipfKeys(cards, skew, seed), common.ZipfKeys(merchants, skew, seed + 1)
    random = np.random.default_rng([seed, cards])
    usual = AMOUNT_TYPICAL * random.lognormal(0.0, 0.7, cards)
    home = random.integers(0, len(COUNTRIES), cards)
    claims = _Claims(np.empty(0, np.int64), np.empty((4, 0), np.int64))

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        card, merchant = holders.draw(random, rows), shops.draw(random, rows)
        stolen = _plant(random, card, fraud)
        shady = stolen & (random.random(rows) < AT_SHADY)
        merchant[shady] = merchant[shady] // SHADY_EVERY * SHADY_EVERY
        amount = usual[card] * random.lognormal(0.0, 0.4, rows)
        amount[stolen] *= random.uniform(*FRAUD_RAISES, int(stolen.sum()))
        country = home[card]
        abroad = random.random(rows) < np.where(stolen, FROM_ABROAD, 0.02)
        country[abroad] = random.integers(0, len(COUNTRIES), int(abroad.sum()))
        number = np.arange(first, first + rows)
        fields = np.stack([number, card, merchant, np.maximum(1, amount).astype(np.int64)])
        due, claimed = claims.take(first + rows)
        fields[:, due - first] = claimed
        is_payment = np.ones(rows, dtype=bool)
        is_payment[due - first] = False
        doubted = random.random(rows) < np.where(stolen, CHARGED_BACK, CHARGED_BACK_WRONGLY)
        (claim,) = np.nonzero(doubted & is_payment)
        claims.add(first + claim + random.integers(rows, DELAY_MAX, claim.size), fields[:, claim])
        return {
            "event": common.kinds(["Payment", "Chargeback"], ~is_payment),
            **dict(zip(("payment", "card", "merchant", "amount"), map(pa.array, fields), strict=True)),
            "country": pa.array(COUNTRIES).take(pa.array(country, mask=~is_payment)),
            "fraud": common.only(stolen, is_payment),
        }

    return common.chunks(events, seed, common.STEP_MAX, make, CHUNK_ROWS)


def _plant(random: np.random.Generator, card: np.ndarray, fraud: float) -> np.ndarray:
    """Lets stolen cards pay in bursts (changes `card`); gives which payments these are."""
    rows = card.size
    stolen = np.zeros(rows, dtype=bool)
    bursts = random.poisson(rows * fraud / ((BURST_MIN + BURST_MAX) / 2))
    for start in random.integers(0, rows, bursts):
        gaps = random.integers(1, BURST_GAP_MAX, int(random.integers(BURST_MIN, BURST_MAX, endpoint=True)))
        places = start + np.cumsum(gaps)
        places = places[places < rows]
        card[places] = card[start]
        stolen[places] = True
    return stolen
