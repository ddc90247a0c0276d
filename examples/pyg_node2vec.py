"""PyG's ``Node2Vec`` with p and q, without pyg-lib."""

import sys

import torch
from torch_geometric.nn import Node2Vec

import handful
import handful.pyg
from handful.convert import to_pyg

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
handful.pyg.enable()
torch.manual_seed(0)
data = to_pyg(handful.load("synthetic?nodes=1000&degree=12&classes=4"))
model = Node2Vec(
    data.edge_index, embedding_dim=32, walk_length=10, context_size=5, walks_per_node=5, p=0.5, q=2.0, sparse=True
)
loader = model.loader(batch_size=128, shuffle=True)
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)

for epoch in range(1, epochs + 1):
    total = 0.0
    for walks, others in loader:
        optimizer.zero_grad()
        loss = model.loss(walks, others)
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
    z = model().detach()
    accuracy = model.test(z[data.train_mask], data.y[data.train_mask], z[data.val_mask], data.y[data.val_mask])
    print(f"epoch {epoch:3d}  loss {total / len(loader):.3f}  val accuracy {accuracy:.4f}")
