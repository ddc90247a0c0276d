"""The script of ``pyg_before.py`` with handful's loader: one import is all that changed."""

import sys
import time

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

import handful
from handful.convert import to_pyg
from handful.pyg import RandomNodeLoader

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
torch.manual_seed(0)
data = to_pyg(handful.load("debian", split="rh"))  # any Data will do

loader = RandomNodeLoader(data, num_parts=10, shuffle=True)
model = GraphSAGE(data.num_features, hidden_channels=64, num_layers=2, out_channels=int(data.y.max()) + 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(1, epochs + 1):
    model.train()
    start = time.perf_counter()
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)
        loss = cross_entropy(out[batch.train_mask], batch.y[batch.train_mask])
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(1) == data.y
    print(f"epoch {epoch:3d}  {seconds:.2f} s  val {right[data.val_mask].float().mean():.4f}")
