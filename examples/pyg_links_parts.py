"""Link prediction on random parts against sampled neighbours, at equal steps and at equal seconds.

python examples/pyg_links_parts.py [SECONDS] [GRAPH] [SEED]

Both train in one process, step by step: the loader that has used fewer seconds makes the next step. Seconds are those
of the CPU, which other programs do not change. The last line of each loader is at the end of its seconds.
"""

import sys
from collections.abc import Iterator
from time import process_time
from typing import Any

import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import RandomLinkSplit

import handful as hf
from handful.pyg import LinkNeighborLoader, LinkRandomNodeLoader, edge_share

PARTS = 4
seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
graph = hf.load(sys.argv[2] if len(sys.argv) > 2 else "synthetic?nodes=4000&degree=12&features=16&classes=5")
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
torch.manual_seed(seed)
data = hf.to_pyg(graph.to_undirected())
split, _, test = RandomLinkSplit(num_val=0.0, num_test=0.1, is_undirected=True, add_negative_train_samples=False)(data)
train = Data(x=split.x, edge_index=split.edge_index)
loaders: dict[str, Any] = {
    "sampled neighbours": LinkNeighborLoader(
        train, [10, 5], edge_label_index=split.edge_label_index, neg_sampling="binary", batch_size=256, shuffle=True
    ),
    "random parts": LinkRandomNodeLoader(train, num_parts=PARTS, shuffle=True),
}


def score(model: GraphSAGE, part: Data) -> torch.Tensor:
    z = model(part.x, part.edge_index)
    return (z[part.edge_label_index[0]] * z[part.edge_label_index[1]]).sum(1)


def steps(loader: Any, model: GraphSAGE) -> Iterator[None]:
    """Train, epoch after epoch, and stop after each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    while True:
        for batch in loader:
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(score(model, batch), batch.edge_label).backward()
            optimizer.step()
            yield


models, running = {}, {}
for name, loader in loaders.items():
    next(iter(loader))  # compiles what it needs
    torch.manual_seed(seed)
    models[name] = GraphSAGE(data.num_features, hidden_channels=64, num_layers=2)
    running[name] = steps(loader, models[name])
print(f"an epoch with {PARTS} parts sees {edge_share(data.num_nodes, PARTS):.1%} of the edges")
used, done = dict.fromkeys(loaders, 0.0), dict.fromkeys(loaders, 0)
while min(used.values()) < seconds:
    name = min(used, key=used.__getitem__)
    start = process_time()
    next(running[name])
    used[name] += process_time() - start
    done[name] += 1
    if done[name] in [25 * 2**k for k in range(20)] or used[name] >= seconds:
        with torch.no_grad():
            area = roc_auc_score(test.edge_label, score(models[name], test))
        epochs = done[name] / len(loaders[name])
        print(f"{name:18}  {done[name]:6} steps, {epochs:6.1f} epochs, {used[name]:6.1f} s, test ROC-AUC {area:.3f}")
