"""The picture of measured points and model."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.bench.replay_plot import draw_scaling, model_line
from mainstem.errors import MainstemError
from mainstem.replay.model import Model, Point

MODEL = Model(k=1e5, a=1.85, r2=0.94, one_host=1e5)


def points(batch: int, skew: float) -> list[Point]:
    return [Point(h, batch, skew * h * batch, MODEL.rate(h, batch, skew * h * batch)) for h in (1, 2, 4, 8, 32)]


def test_the_line_goes_through_points_that_follow_the_model() -> None:
    for skew in (0.001, 0.1):
        own = points(10_000, skew)
        line = model_line(MODEL, own)
        assert line[0] == pytest.approx((own[1].hosts, own[1].rate))
        assert line[-1] == pytest.approx((own[-1].hosts, own[-1].rate))
        assert [hosts for hosts, _ in line] == sorted(hosts for hosts, _ in line)


def test_one_host_has_no_line() -> None:
    assert model_line(MODEL, points(10_000, 0.1)[:1]) == []
    assert len(model_line(MODEL, points(10_000, 0.1)[1:2])) == 1


def test_a_picture_of_several_series_and_batches(tmp_path: Path) -> None:
    path = tmp_path / "scaling.svg"
    series = {"α = 1.25": points(10_000, 0.1) + points(40_000, 0.1), "α = 3": points(10_000, 0.001)}
    draw_scaling(path, title="spam", series=series, model=MODEL, one_thread=5e4, scaled="partitions")
    drawn = path.read_text()
    assert drawn.count("<!-- α = ") == 2 and "<!-- one thread -->" in drawn
    assert "<!-- partitions -->" in drawn and "a = 1.85, R² = 0.940" in drawn


def test_points_alone_are_a_picture_too(tmp_path: Path) -> None:
    draw_scaling(tmp_path / "scaling.png", title="spam", series={"spam": points(10_000, 0.1)})
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(MainstemError, match="no folder"):
        draw_scaling(tmp_path / "nowhere" / "a.png", title="", series={})
