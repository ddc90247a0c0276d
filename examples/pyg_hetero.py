"""PyG's loader for graphs of many types, without pyg-lib: papers, their authors, and a topic to predict."""

import sys

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE, to_hetero

import handful.pyg

handful.pyg.enable()  # all that is added to PyG's own script
torch.manual_seed(0)
papers, authors, topics = 2000, 800, 4
topic = torch.randint(0, topics, (papers,))
field = torch.randint(0, topics, (authors,))
writer = torch.randint(0, authors, (12000,))
paper = torch.randint(0, papers, (12000,))
keep = (field[writer] == topic[paper]) | (torch.rand(12000) < 0.1)  # most write in their own field

data = HeteroData()
data["paper"].x = torch.randn(papers, 16)
data["paper"].y = topic
data["author"].x = torch.eye(topics)[field] + 0.5 * torch.randn(authors, topics)
data["author", "writes", "paper"].edge_index = torch.stack([writer, paper])[:, keep]
data["paper", "by", "author"].edge_index = torch.stack([paper, writer])[:, keep]
train = torch.rand(papers) < 0.6

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
loader = NeighborLoader(data, [10, 5], input_nodes=("paper", train), batch_size=128, shuffle=True)
test = NeighborLoader(data, [-1, -1], input_nodes=("paper", ~train), batch_size=512)
model = to_hetero(GraphSAGE((-1, -1), 32, num_layers=2, out_channels=topics), data.metadata())
with torch.no_grad():
    model(data.x_dict, data.edge_index_dict)  # lazy layers see their widths
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(1, epochs + 1):
    for batch in loader:
        optimizer.zero_grad()
        size = batch["paper"].batch_size
        out = model(batch.x_dict, batch.edge_index_dict)["paper"][:size]
        cross_entropy(out, batch["paper"].y[:size]).backward()
        optimizer.step()
    right = 0
    with torch.no_grad():
        for batch in test:
            size = batch["paper"].batch_size
            out = model(batch.x_dict, batch.edge_index_dict)["paper"][:size]
            right += int((out.argmax(1) == batch["paper"].y[:size]).sum())
    print(f"epoch {epoch:3d}  test accuracy {right / int((~train).sum()):.4f}")
