"""Link prediction with PyG's ``LinkNeighborLoader``, without pyg-lib."""

import sys

import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import RandomLinkSplit

import handful
from handful.convert import to_pyg
from handful.pyg import LinkNeighborLoader

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
torch.manual_seed(0)
data = to_pyg(handful.load("synthetic?nodes=2000&degree=12&features=16&classes=5"))
train, _, test = RandomLinkSplit(num_val=0.0, num_test=0.1, is_undirected=True, add_negative_train_samples=False)(data)


def links(part: Data, **options: object) -> LinkNeighborLoader:
    return LinkNeighborLoader(part, [10, 5], edge_label_index=part.edge_label_index, batch_size=256, **options)


loader = links(train, neg_sampling="binary", shuffle=True)
model = GraphSAGE(data.num_features, hidden_channels=64, num_layers=2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def score(batch: Data) -> torch.Tensor:
    z = model(batch.x, batch.edge_index)
    return (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(1)


for epoch in range(1, epochs + 1):
    total = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(score(batch), batch.edge_label)
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
    with torch.no_grad():
        found = [((score(batch) > 0) == batch.edge_label.bool()) for batch in links(test, edge_label=test.edge_label)]
    print(f"epoch {epoch:3d}  loss {total / len(loader):.3f}  test accuracy {torch.cat(found).float().mean():.4f}")
