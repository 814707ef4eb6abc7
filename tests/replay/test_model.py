"""The throughput model: what it says, and that a fit finds what points were made from."""

from __future__ import annotations

import random

import pytest

from mainstem.errors import InputError
from mainstem.replay.model import Growth, Model, Point, fit

PAPER_A = 1.85


def made(k: float, a: float, *, noise: float = 0.0, seed: int = 0) -> list[Point]:
    """Points over hosts, batches and skew."""
    draw, points = random.Random(seed), []
    for hosts in (2, 4, 8, 16, 32):
        for batch in (2_500, 10_000, 40_000):
            for skew in (0.02, 0.1, 0.4):
                path = skew * (hosts * batch) ** 0.95
                rate = k * hosts / ((hosts - 1) / hosts * max(path / batch, a))
                points.append(Point(hosts, batch, path, rate * (1 + draw.uniform(-noise, noise))))
    return points


@pytest.mark.parametrize(("k", "a"), [(1e5, PAPER_A), (3e6, 0.4), (10.0, 5.0)])
def test_a_fit_finds_the_parameters(k: float, a: float) -> None:
    model = fit(made(k, a))
    assert model.a == pytest.approx(a, rel=1e-3)
    assert model.k == pytest.approx(k, rel=1e-3)
    assert model.r2 == pytest.approx(1.0)


def test_noise_leaves_a_mark_on_r2() -> None:
    model = fit(made(1e5, PAPER_A, noise=0.2))
    assert model.a == pytest.approx(PAPER_A, rel=0.25)
    assert 0.8 < model.r2 < 0.999


def test_points_of_one_kind_still_fit() -> None:
    """Two hosts, several batches: what two cores can measure."""
    points = [Point(2, 10_000, 100.0, 5e6), Point(2, 20_000, 200.0, 5e6)]
    model = fit([Point(1, 10_000, 60.0, 3e6), *points])
    assert model.rate(2, 10_000, 100.0) == pytest.approx(5e6)
    assert model.one_host == 3e6
    assert model.r2 == 1.0


def test_one_host_is_what_was_measured() -> None:
    points = made(1e5, PAPER_A)
    model = fit([*points, Point(1, 10_000, 50.0, 70_000.0), Point(1, 10_000, 50.0, 90_000.0)])
    assert model.rate(1, 10_000, 50.0) == 80_000.0
    with pytest.raises(InputError, match="one host"):
        fit(points).rate(1, 10_000, 50.0)


def test_a_long_path_stops_the_growth() -> None:
    model = Model(k=1e5, a=PAPER_A, r2=1.0)
    even, skewed = Growth({1_000: 2.0, 100_000: 20.0}), Growth({1_000: 300.0, 100_000: 30_000.0})
    rates = {hosts: (model.predict(hosts, 10_000, even), model.predict(hosts, 10_000, skewed)) for hosts in (8, 64)}
    assert rates[64][0] > 7 * rates[8][0]
    assert rates[64][1] == pytest.approx(rates[8][1], rel=0.2)


def test_growth_between_and_beyond_what_was_measured() -> None:
    growth = Growth.of({100: [8, 12], 10_000: [1_000], 50: []})
    assert growth.sizes == [100, 10_000]
    assert growth.at(100) == pytest.approx(10.0)
    assert growth.at(1_000) == pytest.approx(100.0)
    assert growth.at(1_000_000) == pytest.approx(100_000.0)
    assert growth.at(10) == pytest.approx(10.0)  # below: no less than the smallest
    assert Growth({100: 10.0}).at(1_000) == pytest.approx(100.0)
    assert Growth({100: 10.0, 1_000: 9.0}).at(10_000) == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ([], "more than one host"),
        ([Point(1, 10, 1.0, 5.0)], "more than one host"),
        ([Point(2, 0, 1.0, 5.0)], "can't be"),
    ],
)
def test_points_that_tell_nothing(points: list[Point], told: str) -> None:
    with pytest.raises(InputError, match=told):
        fit(points)


def test_growth_of_nothing() -> None:
    with pytest.raises(InputError, match="no critical path"):
        Growth.of({10: []})
