"""The two conformal statements, by their definitions and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from geonew.calibrate.conformal import least_samples, missed_share, share_factor, whole_factor
from geonew.errors import DataError


def draws(generator: np.random.Generator, count: int) -> tuple[list, list]:
    """Samples with nodes that depend on each other, some of them much worse than others."""
    sizes = generator.integers(5, 40, size=count)
    level = np.exp(generator.normal(size=count))
    ratios = [level[k] * np.abs(generator.standard_cauchy(n)) for k, n in enumerate(sizes)]
    masses = [generator.uniform(0.5, 2.0, size=n) for n in sizes]
    return ratios, masses


def test_the_whole_factor_is_an_order_statistic():
    ratios = [np.array([float(k), 0.5]) for k in range(1, 20)]
    assert whole_factor(ratios, 0.9) == 18.0  # the 18th of 19
    assert whole_factor(ratios[:9], 0.9) == 9.0


def test_the_share_factor_is_the_least_that_fits():
    generator = np.random.default_rng(0)
    ratios, masses = draws(generator, 30)
    q = share_factor(ratios, masses, 0.9)

    def risk(factor: float) -> float:
        missed = [missed_share(r, m, factor) for r, m in zip(ratios, masses, strict=True)]
        return (sum(missed) + 1) / 31

    assert risk(q) <= 0.1 + 1e-12
    below = max(v for r in ratios for v in r if v < q)
    assert risk(below) > 0.1


def test_both_statements_hold_on_average():
    """200 repetitions with 19 calibration samples and 20 new ones each."""
    generator = np.random.default_rng(1)
    shares, wholes = [], []
    for _ in range(200):
        ratios, masses = draws(generator, 39)
        q, w = share_factor(ratios[:19], masses[:19], 0.9), whole_factor(ratios[:19], 0.9)
        new = list(zip(ratios[19:], masses[19:], strict=True))
        shares += [1 - missed_share(r, m, q) for r, m in new]
        wholes += [bool(r.max() <= w) for r, _ in new]
    noise = 3 * 0.5 / np.sqrt(200)
    assert np.mean(shares) > 0.9 - 0.02
    assert 0.9 - noise < np.mean(wholes) < 0.9 + noise


def test_ties_are_inside():
    ratios = [np.zeros(4) for _ in range(20)]
    assert share_factor(ratios, [np.ones(4)] * 20, 0.9) == 0.0
    assert missed_share(np.zeros(4), np.ones(4), 0.0) == 0.0


def test_too_few_samples_are_refused():
    assert least_samples(0.9) == 9
    assert least_samples(0.95) == 19
    few = [np.ones(3)] * 8
    with pytest.raises(DataError, match="at least 9"):
        share_factor(few, few, 0.9)
    with pytest.raises(DataError, match="between 0 and 1"):
        whole_factor(few, 1.5)
