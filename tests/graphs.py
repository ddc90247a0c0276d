"""Small graphs that several tests share."""

from __future__ import annotations

import torch

from handful import Graph


def make_graph(
    n: int = 200,
    degree: int = 6,
    classes: int = 4,
    features: int = 8,
    *,
    undirected: bool = True,
    weighted: bool = False,
    seed: int = 0,
) -> Graph:
    """Communities with noisy features: something that a GNN learns in a few steps."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=rng)
    sources = torch.randint(0, n, (n * degree,), generator=rng)
    same = torch.rand(n * degree, generator=rng) < 0.7
    order = torch.argsort(y, stable=True)
    starts = torch.cumsum(torch.bincount(y, minlength=classes), 0) - torch.bincount(y, minlength=classes)
    sizes = torch.bincount(y, minlength=classes)
    pick = (torch.rand(n * degree, generator=rng) * sizes[y[sources]]).long()
    targets = torch.where(same, order[starts[y[sources]] + pick], torch.randint(0, n, (n * degree,), generator=rng))
    x = torch.randn(n, features, generator=rng) + torch.randn(classes, features, generator=rng)[y]
    role = torch.rand(n, generator=rng)
    graph = Graph.from_edge_index(
        torch.stack([sources, targets]),
        n,
        x=x,
        y=y,
        num_classes=classes,
        train_mask=role < 0.5,
        val_mask=(role >= 0.5) & (role < 0.75),
        test_mask=role >= 0.75,
        edge_weight=torch.rand(n * degree, generator=rng) + 0.1 if weighted else None,
    )
    return graph.to_undirected() if undirected else graph


def make_numbers(n: int = 200, metric: str = "mae") -> Graph:
    """A regression: numbers in the tens of thousands, which the features tell."""
    graph = make_graph(n)
    assert graph.x is not None
    return graph.replace(y=20_000 + 5_000 * graph.x[:, 0], task="regression", num_classes=None, metric=metric)
