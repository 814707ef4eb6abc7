"""Card payments: rules that judge a payment by what was known when it came, and a training set from the same run.

Three rules look at a payment: how many the card made lately (velocity), how its amount compares with what the card
usually pays, and how many payments at the merchant were charged back so far. A payment that two of them suspect is
declined. A chargeback is the label: it comes weeks later and names the payment.

    import mainstem as ms
    from mainstem.apps import fraud

    events = fraud.generate(100_000)
    result = fraud.app.run(events, initial=fraud.initial())
    result.outputs                     # one row per payment: features as of that payment, and the decision
    fraud.training_set(events, result.outputs)       # the same, with the column `fraud`
    assert fraud.conserved(fraud.initial(), events, result.outputs, fraud.app.state)

Features are those *before* the payment: none can know its own outcome, or a chargeback that came later. A declined
payment counts like any other, so the rules of one table never decide what is written to another.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.workloads.fraud import conserved, generate, initial, training_set, write_log

__all__ = ["app", "conserved", "generate", "initial", "training_set", "write_log"]

WINDOW = 1_000  # of `ts`: what counts as lately
VELOCITY_MAX = 3.0  # payments in a window
AMOUNT_RATIO = 4.0  # times what the card usually pays
USUAL_WEIGHT = 0.2  # of the newest payment in what the card usually pays
RISKY_SHARE = 0.03  # of the merchant's payments were charged back
EVIDENCE_MIN = 20  # payments at the merchant before its share means anything
SUSPICIONS_MIN = 2  # rules that must agree

app = ms.App("fraud")


@app.event
class Payment:
    payment: int  # its number, which a chargeback names
    card: int
    merchant: int
    amount: int  # cents
    country: str


@app.event
class Chargeback:
    payment: int
    card: int
    merchant: int
    amount: int


@app.table(key=int)
class Card:
    payments: int = 0
    spent: int = 0
    usual: float = 0.0  # weighted mean of its amounts; the newest count most
    country: str = ""  # of the last payment
    window: int = 0  # the last one in which it paid
    in_window: int = 0  # payments there
    in_window_before: int = 0
    chargebacks: int = 0


@app.table(key=int)
class Merchant:
    payments: int = 0
    earned: int = 0
    chargebacks: int = 0
    charged_back: int = 0  # cents


@app.on(Payment)
def payment(e):
    card = Card[e.card]
    merchant = Merchant[e.merchant]

    # A window that slides: what is left of the one before counts by the share that is still in sight.
    window = e.ts // WINDOW
    recent = card.in_window if card.window == window else 0
    before = card.in_window if card.window == window - 1 else card.in_window_before if card.window == window else 0
    velocity = recent + before * (1.0 - (e.ts - window * WINDOW) * (1.0 / WINDOW))

    usual = card.usual
    known = card.payments > 0
    moved = known and card.country != e.country
    card_payments, card_chargebacks = card.payments, card.chargebacks
    merchant_payments, merchant_chargebacks = merchant.payments, merchant.chargebacks

    too_fast = velocity > VELOCITY_MAX
    too_much = known and e.amount > AMOUNT_RATIO * usual
    risky = merchant_payments >= EVIDENCE_MIN and merchant_chargebacks > RISKY_SHARE * merchant_payments
    suspicions = int(too_fast) + int(too_much) + int(risky)

    card.payments += 1
    card.spent += e.amount
    card.usual = usual + USUAL_WEIGHT * (e.amount - usual) if known else float(e.amount)
    card.country = e.country
    card.window = window
    card.in_window = recent + 1
    card.in_window_before = before
    merchant.payments += 1
    merchant.earned += e.amount
    return {
        "payment": e.payment,
        "amount": e.amount,
        "velocity": velocity,
        "usual": usual,
        "moved": moved,
        "card_payments": card_payments,
        "card_chargebacks": card_chargebacks,
        "merchant_payments": merchant_payments,
        "merchant_chargebacks": merchant_chargebacks,
        "declined": suspicions >= SUSPICIONS_MIN,
    }


@app.on(Chargeback)
def chargeback(e):
    Card[e.card].chargebacks += 1
    merchant = Merchant[e.merchant]
    merchant.chargebacks += 1
    merchant.charged_back += e.amount
