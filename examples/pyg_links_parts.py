"""Link prediction on random parts against sampled neighbours: seconds per epoch and test ROC-AUC of both loaders.

python examples/pyg_links_parts.py [EPOCHS]
"""

import sys
from collections.abc import Iterable
from time import perf_counter

import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import RandomLinkSplit

import handful as hf
from handful.pyg import LinkNeighborLoader, LinkRandomNodeLoader, edge_share

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
torch.manual_seed(0)
data = hf.to_pyg(hf.load("synthetic?nodes=4000&degree=12&features=16&classes=5"))
split, _, test = RandomLinkSplit(num_val=0.0, num_test=0.1, is_undirected=True, add_negative_train_samples=False)(data)
train = Data(x=split.x, edge_index=split.edge_index)
loaders: dict[str, Iterable[Data]] = {
    "sampled neighbours": LinkNeighborLoader(
        train, [10, 5], edge_label_index=split.edge_label_index, neg_sampling="binary", batch_size=256, shuffle=True
    ),
    "random parts": LinkRandomNodeLoader(train, num_parts=4, shuffle=True),
}
print(f"an epoch with 4 parts sees {edge_share(data.num_nodes, 4):.1%} of the edges")
for name, loader in loaders.items():
    torch.manual_seed(0)
    model = GraphSAGE(data.num_features, hidden_channels=64, num_layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

    def score(part: Data, model: GraphSAGE = model) -> torch.Tensor:
        z = model(part.x, part.edge_index)
        return (z[part.edge_label_index[0]] * z[part.edge_label_index[1]]).sum(1)

    next(iter(loader))  # compiles what it needs
    start = perf_counter()
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(score(batch), batch.edge_label).backward()
            optimizer.step()
    seconds = (perf_counter() - start) / epochs
    with torch.no_grad():
        area = roc_auc_score(test.edge_label, score(test))
    print(f"{name:18}  {seconds:.2f} s per epoch, {epochs} epochs, test ROC-AUC {area:.3f}")
