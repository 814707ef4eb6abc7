"""The transfers of the bank benchmark, and the systems that run them besides Mainstem, really run."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable

import numpy as np
import pytest

from mainstem.bench import bank_compare, bank_postgres, bank_servers
from mainstem.bench.bank_compare import TARGETS, compared
from mainstem.bench.bank_figures import Results
from mainstem.bench.bank_options import Options
from mainstem.bench.bank_peers import LATER, SYNCED, Config, Peer, PeerFigure, Turn, take_turn
from mainstem.bench.bank_postgres import postgres_peers
from mainstem.bench.bank_redis import Connection, Redis, encoded, redis_peers
from mainstem.bench.bank_scenario import Meter
from mainstem.bench.bank_servers import NotInstalled, Server
from mainstem.bench.bank_sqlite import sqlite_peers
from mainstem.bench.bank_workload import HOPELESS_AMOUNT, Workload, digest_of, murmur2
from mainstem.errors import MainstemError

SMALL = Workload(accounts=50, abort=0.25, seed=3)


class TestTransfers:
    def test_the_hash_is_that_of_pgbench(self):
        # What pgbench 15 prints for `\set h hash_murmur2(:i, :seed)`.
        assert murmur2(np.array([0, 1, 100_000]), 5).tolist() == [
            4418679389108292938,
            3896754574207142840,
            -2818206344533428961,
        ]

    def test_a_part_of_the_log_is_the_same_alone(self):
        whole, part = SMALL.transfers(100), SMALL.transfers(30, 40)
        for name in ("src", "dst", "amount"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[40:70])
        assert part.events["ts"].to_pylist() == list(range(40, 70))

    def test_they_are_uniform_between_two_accounts(self):
        made = Workload(accounts=10).transfers(50_000)
        assert (made.src != made.dst).all()
        assert made.amount.min() == 1 and made.amount.max() == 100 and made.aborts == 0
        for column in (made.src, made.dst):
            assert np.bincount(column, minlength=10) == pytest.approx(np.full(10, 5_000), rel=0.1)

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
    def test_as_many_abort_as_asked_for(self, share):
        made = Workload(abort=share).transfers(50_000)
        assert made.aborts / len(made) == pytest.approx(share, abs=0.01)

    def test_balances_are_those_of_a_loop(self):
        balances, made = SMALL.start().tolist(), SMALL.transfers(400)
        for src, dst, amount in zip(made.src, made.dst, made.amount, strict=True):
            if balances[src] >= amount:
                balances[src] -= amount
                balances[dst] += amount
        np.testing.assert_array_equal(SMALL.balances_after(400), balances)
        assert SMALL.start().sum() < HOPELESS_AMOUNT


class Wrong:
    """A contender that forgets one update of every run."""

    config = Config("wrong", "loop", "memory", SYNCED)
    step = 4

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []

    def reset(self) -> None:
        self.ran = []

    def run(self, first: int, count: int) -> Turn:
        self.ran.append((first, count))
        return Turn(count / 1_000, 0.001)

    def balances(self) -> np.ndarray:
        return SMALL.balances_after(sum(count for _, count in self.ran) - 1)


def test_a_turn_takes_as_long_as_asked_and_goes_on_where_the_probes_ended():
    peer = Wrong()
    figure = PeerFigure(peer.config)
    take_turn(peer, figure, SMALL, 2.0)
    assert all(first == sum(count for _, count in peer.ran[:n]) for n, (first, _) in enumerate(peer.ran))
    assert all(count % peer.step == 0 for _, count in peer.ran)
    assert figure.counts == [2_000] and figure.rate == pytest.approx(1_000) and figure.latency == 0.001


def test_a_contender_that_lost_an_update_is_named():
    figure = PeerFigure(Wrong.config)
    take_turn(Wrong(), figure, SMALL, 0.1)
    (line,) = figure.wrong
    assert "wrong, loop, memory" in line and figure.digest in line
    assert Results(Options(), peers=[figure]).disagreements == [line]


def check(peers: list[Peer], seconds: float = 0.02) -> None:
    """Each ends in the right balances, with aborts."""
    for peer in peers:
        figure = PeerFigure(peer.config)
        take_turn(peer, figure, SMALL, seconds)
        assert figure.wrong == [], peer.config
        assert figure.rate > 0


def test_sqlite():
    with sqlite_peers(SMALL) as (version, peers):
        assert version == sqlite3.sqlite_version
        check(peers)
        assert [peer.config.durable for peer in peers] == [SYNCED, LATER, SYNCED]
        assert [peer.config.upper_bound for peer in peers] == [False, False, True]


def missing(start: Callable[[], Server]) -> str:
    """What to install; empty when the server's programs are there."""
    try:
        start()._remove()
    except NotInstalled as error:
        return str(error)
    return ""


def test_postgresql_with_one_and_several_connections_or_what_to_install():
    if lacking := missing(bank_postgres.Postgres):
        assert "apt-get install postgresql" in lacking
        return
    with postgres_peers(SMALL, (1, 4)) as (version, peers):
        assert int(version.split(".")[0]) >= 13
        assert [peer.step for peer in peers] == [1, 4, 1, 4, 1]
        check(peers)
        server = peers[0]._server
        assert server.psql("SHOW fsync").strip() == "on"
        folder = server.folder
        assert folder.exists()
    assert not folder.exists()


def test_redis_alone_and_pipelined_or_what_to_install():
    if lacking := missing(lambda: Redis("always")):
        assert "apt-get install redis-server" in lacking
        return
    with redis_peers(SMALL, (1, 3)) as (version, peers):
        assert int(version.split(".")[0]) >= 5
        assert {(3, 100), (1, 10_000)} <= {(peer.connections, peer.pipelined) for peer in peers}
        check(peers)
        with Connection(peers[0].server.socket) as connection:
            assert connection.ask_many("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"always"]
            with pytest.raises(MainstemError, match="unknown command"):
                connection.ask("NONSENSE")
        folders = {peer.server.folder for peer in peers}
        assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


def test_a_command_of_redis():
    assert encoded("GET", b"17") == b"*2\r\n$3\r\nGET\r\n$2\r\n17\r\n"


class Failing(Server):
    name = "Failing"

    def command(self) -> list[str]:
        return ["sh", "-c", "echo no disk left >&2; exit 3"]

    def answers(self) -> bool:
        return False


class Answering(Server):
    def command(self) -> list[str]:
        return ["sleep", "60"]

    def answers(self) -> bool:
        return True


def test_a_server_that_does_not_start_shows_its_log_and_leaves_nothing():
    server = Failing("nobody")
    with pytest.raises(MainstemError, match=r"(?s)Failing did not start.*no disk left"), server:
        pass
    assert not server.folder.exists()


def test_a_terminated_benchmark_takes_its_servers_down():
    server = Answering("nobody")
    with pytest.raises(SystemExit), bank_servers.ended_in_order(), server:
        signal.raise_signal(signal.SIGTERM)
    assert not server.folder.exists()


@pytest.mark.parametrize(
    ("start", "package"), [(bank_postgres.Postgres, "postgresql"), (lambda: Redis("always"), "redis-server")]
)
def test_a_missing_program_is_named_with_what_to_install(monkeypatch, start, package):
    monkeypatch.setattr(bank_servers.shutil, "which", lambda *_, **__: None)
    with pytest.raises(NotInstalled, match=f"(?s)not installed.*{package}"):
        start()


def test_servers_do_not_run_as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bank_servers._identity("nobody")["user"] != 0
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert bank_servers._identity("nobody") == {}


class TestComparison:
    def results(self, rates: dict[Config, float]) -> Results:
        results = Results(Options())
        for config, rate in rates.items():
            results.peers.append(PeerFigure(config, [1_000], [Turn(1_000 / rate, None)]))
        return results

    def test_the_target_is_against_the_fastest_with_the_same_promise(self):
        results = self.results(
            {
                Config("Mainstem", "app.run, 65,536 per commit", "durability=batch", SYNCED): 1e6,
                Config("Mainstem", "app.run, 65,536 per commit", "durability=none", LATER): 9e6,
                Config("Redis", "one", "always", SYNCED): 1e4,
                Config("Redis", "pipelined", "always", SYNCED): 4e4,
                Config("Redis", "one", "everysec", LATER): 9e4,
                Config("PostgreSQL", "at once", "on", SYNCED, upper_bound=True): 9e5,
                Config("PostgreSQL", "one", "on", SYNCED): 5e3,
            },
        )
        assert compared(results) is results.peers[0]
        found = {target.what: (target.value, target.met) for target in bank_compare._targets(results)}
        assert found == {
            "Mainstem, durability=batch / PostgreSQL, one, on": (pytest.approx(200), True),
            "Mainstem, durability=batch / Redis, pipelined, always": (pytest.approx(25), True),
        }
        assert set(TARGETS) == {"PostgreSQL", "Redis"}

    def test_what_is_not_installed_has_no_figure(self, monkeypatch):
        def absent(*_):
            raise NotInstalled("it is not installed\n  apt-get install it")

        monkeypatch.setattr(bank_compare, "postgres_peers", absent)
        monkeypatch.setattr(bank_compare, "redis_peers", absent)
        monkeypatch.setattr(bank_compare, "own_peers", sqlite_peers)
        options = Options(accounts=50, peer_seconds=0.01, peer_repeats=1)
        results = Results(options)
        bank_compare.peers(results, Meter(options), lambda line: None)
        assert set(results.missing) == {"PostgreSQL", "Redis"}
        assert {figure.config.system for figure in results.peers} == {"SQLite"}
        assert results.targets == []


def test_a_digest_tells_balances_apart():
    start = SMALL.start()
    assert digest_of(start) == digest_of(start.copy())
    assert digest_of(start) != digest_of(start[::-1])
