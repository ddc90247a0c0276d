"""``AddAggregated`` against PyG's own convolutions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GCNConv, SAGEConv, SimpleConv

import handful as hf
from graphs import make_graph
from handful.pyg import AddAggregated

DATA = hf.to_pyg(make_graph(60, undirected=False))


@pytest.mark.parametrize("hops", [1, 2])
def test_the_mean_is_that_of_pyg(hops: int) -> None:
    mean, rows = SimpleConv(aggr="mean"), [DATA.x]
    for _ in range(hops):
        rows.append(mean(rows[-1], DATA.edge_index))
    torch.testing.assert_close(AddAggregated(hops=hops)(DATA).x, torch.cat(rows, 1))
    assert DATA.x.shape[1] == 8  # a transform gives a copy


def test_gcn_and_weights_are_those_of_pyg() -> None:
    weighted = hf.to_pyg(make_graph(60, weighted=True))
    conv = GCNConv(8, 8, bias=False)
    conv.lin.weight.data = torch.eye(8)
    with torch.no_grad():
        expected = conv(weighted.x, weighted.edge_index, weighted.edge_weight)
    torch.testing.assert_close(AddAggregated("gcn")(weighted).x[:, 8:], expected, rtol=1e-5, atol=1e-5)


def test_on_a_part_a_linear_of_both_is_a_convolution_on_the_whole_graph() -> None:
    conv = SAGEConv(8, 3)
    linear = nn.Linear(16, 3)
    linear.weight.data, linear.bias.data = torch.cat([conv.lin_r.weight, conv.lin_l.weight], 1), conv.lin_l.bias
    data = AddAggregated()(DATA)
    data.expected = conv(DATA.x, DATA.edge_index)
    for batch in RandomNodeLoader(data, num_parts=4, shuffle=True):
        torch.testing.assert_close(linear(batch.x), batch.expected, rtol=1e-5, atol=1e-5)


def test_a_wrong_call_is_told_in_one_line() -> None:
    with pytest.raises(hf.GraphError, match="mean_with_loops"):
        AddAggregated("max")  # type: ignore[arg-type]
    with pytest.raises(hf.GraphError, match="edge_index"):
        AddAggregated()(Data(x=torch.eye(3)))
