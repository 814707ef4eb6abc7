"""Throughput over the number of hosts: the model of ReStream's section 5.4, fitted to measured points.

    events/s = k · h / ((h - 1) / h · max(c / b, a))        for h > 1 hosts

`b` is the batch per host and `c` the critical path of a batch of all hosts, `h · b` events. (h - 1) / h is how likely
an access goes to another host. While c / b is below `a`, hosts have enough to do beside the chain that can't be cut;
above it they wait for that chain. The model says nothing about one host, where no access goes elsewhere: that one is
measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mainstem.errors import InputError

_STEPS = 400  # of a scan over `a`; a second scan goes between the neighbours of the best


@dataclass(frozen=True)
class Point:
    """One measurement."""

    hosts: int  # or partitions: whatever was scaled
    batch: int  # events per host
    path: float  # critical path of a batch of all hosts, on average
    rate: float  # events per second


class Growth:
    """The critical path over the size of a batch: measured at some sizes, straight lines between them in logarithms.

    Beyond the largest size the last slope goes on. It is held between 0 (the chain does not grow) and 1 (each further
    batch adds as much as the one before it).
    """

    def __init__(self, paths: Mapping[int, float]) -> None:
        usable = sorted((size, path) for size, path in paths.items() if size > 0 and path > 0)
        if not usable:
            raise InputError("no critical path was measured\n  give the paths of batches of one or more sizes")
        self.sizes = [size for size, _ in usable]
        self.paths = [path for _, path in usable]

    @classmethod
    def of(cls, paths: Mapping[int, Sequence[int]]) -> Growth:
        """From all paths of batches of each size, as `paths_by_size` gives them: the model counts with the average."""
        return cls({size: sum(found) / len(found) for size, found in paths.items() if found})

    def at(self, size: float) -> float:
        sizes, paths = np.log(self.sizes), np.log(self.paths)
        wanted = float(np.log(max(size, 1.0)))
        if wanted > sizes[-1]:
            return float(np.exp(paths[-1] + self._last_slope() * (wanted - sizes[-1])))
        return float(np.exp(np.interp(wanted, sizes, paths)))

    def _last_slope(self) -> float:
        if len(self.sizes) < 2:
            return 1.0  # the careful assumption: nothing is known about other sizes
        (a, b), (c, d) = np.log(self.sizes[-2:]), np.log(self.paths[-2:])
        return float(np.clip((d - c) / (b - a), 0.0, 1.0))


@dataclass(frozen=True)
class Model:
    """A fitted model. `one_host`: the rate that was measured there, if it was."""

    k: float
    a: float
    r2: float
    one_host: float | None = None

    def rate(self, hosts: float, batch: float, path: float) -> float:
        """Events per second. `batch` per host; `path` of a batch of all hosts."""
        if hosts == 1:
            if self.one_host is None:
                raise InputError("the model does not hold for one host\n  fit it to points that have one with hosts=1")
            return self.one_host
        return self.k * float(_shape(np.array([hosts]), np.array([path / batch]), self.a)[0])

    def predict(self, hosts: float, batch: float, growth: Growth) -> float:
        """Events per second where the critical path was measured for other sizes of batches."""
        return self.rate(hosts, batch, growth.at(hosts * batch))


def fit(points: Iterable[Point]) -> Model:
    """The least squares of the rates: `k` follows from `a`, and `a` is searched for."""
    given = list(points)
    alone = [point.rate for point in given if point.hosts == 1]
    several = [point for point in given if point.hosts > 1]
    if not several:
        raise InputError("no point has more than one host, and the model is about several\n  measure with 2 or more")
    for point in several:
        if point.batch <= 0 or point.path <= 0:
            raise InputError(f"{point} can't be: batch and critical path are at least 1")
    hosts, rates = np.array([p.hosts for p in several]), np.array([p.rate for p in several], float)
    ratios = np.array([p.path / p.batch for p in several])
    a = _best_a(hosts, ratios, rates)
    k, missed = _best_k(hosts, ratios, rates, a)
    spread = float(np.sum((rates - rates.mean()) ** 2))
    r2 = 1.0 - missed / spread if spread else float(missed == 0.0)
    return Model(k, a, r2, sum(alone) / len(alone) if alone else None)


def _shape(hosts: np.ndarray, ratios: np.ndarray, a: float) -> np.ndarray:
    return hosts / ((hosts - 1) / hosts * np.maximum(ratios, a))


def _best_k(hosts: np.ndarray, ratios: np.ndarray, rates: np.ndarray, a: float) -> tuple[float, float]:
    """The factor that fits best, and the sum of squares that it leaves."""
    shape = _shape(hosts, ratios, a)
    k = float(shape @ rates / (shape @ shape))
    return k, float(np.sum((rates - k * shape) ** 2))


def _best_a(hosts: np.ndarray, ratios: np.ndarray, rates: np.ndarray) -> float:
    """Outside of the ratios that were met `a` changes nothing but the meaning of `k`, so the search stays inside."""
    low, high = float(ratios.min()), float(ratios.max())
    best = low
    for _ in range(2):
        scan = np.geomspace(low, high, _STEPS)
        left = [_best_k(hosts, ratios, rates, float(a))[1] for a in scan]
        at = int(np.argmin(left))
        best, low, high = float(scan[at]), float(scan[max(at - 1, 0)]), float(scan[min(at + 1, _STEPS - 1)])
    return best
