from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from handful.batch import Sample
from handful.graph import Graph
from handful.samplers.random_node import RandomNodes
from handful.theory.powerlaw import (
    alpha_error,
    degrees,
    exponents,
    fit_power_law,
    ks_distance,
)


def draw(alpha: float, x_min: int, n: int, seed: int = 0) -> np.ndarray:
    """Exact draws from the discrete power law, by inversion over a long table."""
    x = np.arange(x_min, 200_000)
    return np.random.default_rng(seed).choice(x, n, p=x**-alpha / (x**-alpha).sum())


def alpha_from(data: np.ndarray, x_min: int) -> float:
    """The α of largest likelihood for the tail from x_min on."""
    tail = data[data >= x_min]
    return float(exponents(np.array([np.log(tail).mean()]), np.array([float(x_min)]))[0])


@pytest.mark.parametrize(("alpha", "x_min"), [(1.7, 1), (2.5, 1), (2.5, 7), (3.5, 3)])
def test_maximum_likelihood_is_scipys_and_near_the_truth(alpha: float, x_min: int) -> None:
    data = draw(alpha, x_min, 20_000)
    found = alpha_from(data, x_min)
    mean_log = np.log(data).mean()
    best = minimize_scalar(lambda a: np.log(zeta(a, x_min)) + a * mean_log, bounds=(1.01, 8), method="bounded")
    assert found == pytest.approx(best.x, abs=1e-4)
    # The information of n observations about α is n·Var(ln x).
    assert found == pytest.approx(alpha, abs=4 / (np.sqrt(len(data)) * np.log(data).std()))


def brute_force(data: np.ndarray, min_tail: int) -> tuple[int, float]:
    """Clauset's x_min straight from the definition: the CDFs at every whole number."""
    best = (np.inf, 0)
    for x_min in np.unique(data)[:-1]:
        tail = data[data >= x_min]
        if len(tail) < min_tail:
            continue
        alpha = alpha_from(tail, int(x_min))
        x = np.arange(x_min, tail.max() + 1)
        fitted = 1 - zeta(alpha, x + 1.0) / zeta(alpha, float(x_min))
        empirical = np.searchsorted(np.sort(tail), x, side="right") / len(tail)
        best = min(best, (float(np.abs(fitted - empirical).max()), int(x_min)))
    return best[1], best[0]


@pytest.mark.parametrize("seed", range(5))
def test_x_min_is_the_one_of_least_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = np.concatenate([rng.integers(1, 8, 600), draw(2.4, 8, 900, seed)])
    fit = fit_power_law(data)
    x_min, distance = brute_force(data, 50)
    assert fit.x_min == x_min
    assert fit.distance == pytest.approx(distance, abs=1e-9)
    assert fit.tail == (data >= x_min).sum()
    assert fit.tail >= 50


@pytest.mark.filterwarnings("ignore::DeprecationWarning:powerlaw")
@pytest.mark.parametrize("seed", range(3))
def test_against_the_powerlaw_package(seed: int) -> None:
    package = pytest.importorskip("powerlaw")
    data = np.concatenate([np.random.default_rng(seed).integers(1, 6, 300), draw(2.6, 6, 700, seed)])
    theirs = package.Fit(data, discrete=True, estimate_discrete=False, xmin=6, verbose=0)
    assert alpha_from(data, 6) == pytest.approx(theirs.power_law.alpha, abs=1e-3)
    free = package.Fit(data, discrete=True, estimate_discrete=False, verbose=0)
    assert fit_power_law(data).alpha == pytest.approx(free.power_law.alpha, abs=0.15)


def test_nothing_to_fit() -> None:
    assert np.isnan(fit_power_law([]).alpha)
    assert np.isnan(fit_power_law([0, 0, 3, 3]).alpha)
    assert fit_power_law([1, 1, 2]).tail == 3


def test_degrees_count_distinct_neighbours() -> None:
    edges = np.array([[0, 1, 1, 2, 2, 3, 0], [1, 0, 2, 3, 3, 3, 2]])
    n = 5
    fields = {"x": np.zeros((n, 1), np.float32), "y": np.zeros(n, int), "train_mask": np.ones(n, bool)}
    directed = Graph.from_edge_index(edges, n, num_classes=1, **fields)
    assert degrees(directed).tolist() == [2, 2, 3, 1, 0]
    simple = directed.to_undirected().without_loops()
    assert degrees(simple).tolist() == [2, 2, 3, 1, 0]
    for graph in (directed, simple):
        for nodes, adjacency in RandomNodes(2).subgraphs(graph, 3, 0):
            among = nodes.tolist()
            expected = [
                len({u for e in edges.T for u in e if v in e and u != v and set(e.tolist()) <= set(among)})
                for v in among
            ]
            assert degrees(Sample(nodes, (adjacency,), nodes[:0])).tolist() == expected


def test_the_error_of_the_exponent() -> None:
    assert alpha_error([2.0, 2.4, float("nan")], 2.5) == pytest.approx(0.3)
    assert np.isnan(alpha_error([float("nan")], 2.5))


# -- the tail ----------------------------------------------------------------------------------------------------------


def test_exponents_of_largest_likelihood() -> None:
    mean_log, x_min = np.array([0.3, 1.2, 2.5, 1.4]), np.array([1.0, 1.0, 7.0, 3.0])
    for mean, least, alpha in zip(mean_log, x_min, exponents(mean_log, x_min), strict=True):
        best = minimize_scalar(
            lambda a, mean=mean, least=least: np.log(zeta(a, least)) + a * mean, bounds=(1.001, 20), method="bounded"
        )
        assert alpha == pytest.approx(best.x, abs=1e-4)


@pytest.mark.parametrize("alpha", [1.05, 1.7, 2.5, 3.5, 8.0])
@pytest.mark.parametrize("x_min", [1, 7, 300])
def test_the_exponent_of_a_law_is_found_again(alpha: float, x_min: int) -> None:
    step = 1e-4 * (alpha - 1)  # E[ln X] is the slope of -ln zeta, here to the fourth order
    steps = np.array([-2, -1, 1, 2])
    mean_log = -np.log(zeta(alpha + steps * step, x_min)) @ np.array([1, -8, 8, -1]) / (12 * step)
    assert exponents(np.array([mean_log]), np.array([float(x_min)]))[0] == pytest.approx(alpha, rel=1e-6)


def test_the_exponent_is_bounded_where_no_law_fits() -> None:
    found = exponents(np.array([1e9, 1.0]), np.array([1.0, 1e9]))
    assert found[0] == pytest.approx(1, abs=1e-4)
    assert 1 < found[1] <= 60


def counted(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = np.random.default_rng(seed).zipf(2.3, 400)
    values, counts = np.unique(data, return_counts=True)
    return data, values.astype(float), counts


def distance_by_definition(data: np.ndarray, x_min: int, alpha: float) -> float:
    """The largest gap between the two distribution functions over all whole numbers from x_min to the largest."""
    x = np.arange(x_min, data.max() + 1)
    tail = np.sort(data[data >= x_min])
    fitted = 1 - zeta(alpha, x + 1.0) / zeta(alpha, float(x_min))
    return float(np.abs(fitted - np.searchsorted(tail, x, side="right") / len(tail)).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("first", [0, 2])
def test_distance(seed: int, first: int) -> None:
    data, values, counts = counted(seed)
    found = ks_distance(values[first:], counts[first:], 2.4)
    assert found == pytest.approx(distance_by_definition(data, int(values[first]), 2.4), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_best_of_the_candidates(seed: int) -> None:
    data, values, _ = counted(seed)
    fits = []
    for i, x_min in enumerate(values[:-1]):
        tail = data[data >= x_min]
        alpha = exponents(np.array([np.log(tail).mean()]), np.array([x_min]))[0]
        fits.append((distance_by_definition(data, int(x_min), alpha), i, alpha, len(tail)))
    distance, place, alpha, tail = min(fit for fit in fits if fit[3] >= 50)
    found = fit_power_law(data, min_tail=50)
    assert (found.x_min, found.tail) == (values[place], tail)
    assert found.alpha == pytest.approx(alpha, abs=1e-9)
    assert found.distance == pytest.approx(distance, abs=1e-9)
