"""Online Bidding: items with an asking price and a quantity, bids that take what is there.

The program: one table, three event types. A bid takes some units of one item if it offers the asking price and enough
is left; otherwise it is rejected. An alter request sets new prices for a list of items, a top request adds to the
quantity of a list of items: all of them, or none.

    import mainstem as ms
    from mainstem.apps import bidding

    events = bidding.generate(100_000)
    result = bidding.app.run(events, initial=bidding.initial())
    result.outputs                     # of a bid that was accepted: the price to pay, and what is left
    bidding.app.state["Item"]          # key, price, quantity, seal
    assert bidding.conserved(bidding.initial(), events, result.outputs, bidding.app.state)

The default workload is that of TStream's evaluation: 10,000 items, six bids for each alter and each top request, 20
items in these, Zipf skew 0.6; unlike there, some bids are rejected. Bids that offer less than the highest price succeed
or fail by what the item costs at that moment. The `seal` of an item sums up all that happened to it, in order.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.work import burn
from mainstem.apps.workloads.bidding import conserved, generate, initial, write_log

__all__ = ["app", "conserved", "generate", "initial", "write_log"]

app = ms.App("bidding")


@app.event
class Bid:
    item: int
    price: int
    quantity: int
    work: int


@app.event
class Alter:
    items: list[int]
    prices: list[int]
    work: int


@app.event
class Top:
    items: list[int]
    quantity: int
    work: int


@app.table(key=int)
class Item:
    price: int = 0
    quantity: int = 0
    seal: int = 0


@app.on(Bid)
def bid(e):
    item = Item[e.item]
    price = item.price
    left = item.quantity - e.quantity
    ms.require(e.price >= price, "price too low")
    ms.require(left >= 0, "not enough left")
    item.quantity = left
    item.seal = burn(item.seal * 3 + e.quantity, e.work)
    return {"price": price, "left": left}


@app.on(Alter)
def alter(e):
    ms.require(len(e.prices) == len(e.items), "every item needs a price")
    for i in range(len(e.items)):
        item = Item[e.items[i]]
        item.price = e.prices[i]
        item.seal = burn(item.seal * 3 + e.prices[i], e.work)


@app.on(Top)
def top(e):
    ms.require(e.quantity > 0, "quantity must be positive")
    for key in e.items:
        item = Item[key]
        item.quantity += e.quantity
        item.seal = burn(item.seal * 3 + e.quantity, e.work)
