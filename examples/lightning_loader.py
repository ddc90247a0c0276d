"""handful's loaders in a Lightning ``Trainer``: they are torch's ``DataLoader``s."""

import sys

import torch
from lightning import LightningModule, Trainer
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import handful
from handful.convert import to_pyg
from handful.pyg import NeighborLoader, RandomNodeLoader


class Classifier(LightningModule):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.model = GraphSAGE(features, hidden_channels=64, num_layers=2, out_channels=classes)

    def training_step(self, batch: Data, _: int) -> torch.Tensor:
        out = self.model(batch.x, batch.edge_index)[batch.train_mask]
        return cross_entropy(out, batch.y[batch.train_mask])

    def validation_step(self, batch: Data, _: int) -> None:
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
        right = (out.argmax(1) == batch.y[: batch.batch_size]).float().mean()
        self.log("val_accuracy", right, batch_size=batch.batch_size, prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


torch.manual_seed(42)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
data = to_pyg(handful.load("debian", split="rh"))
train = RandomNodeLoader(data, num_parts=10, shuffle=True)
val = NeighborLoader(data, num_neighbors=[-1, -1], input_nodes=data.val_mask, batch_size=2048)
model = Classifier(data.num_features, int(data.y.max()) + 1)
trainer = Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(model, train, val)
print(f"val accuracy {trainer.callback_metrics['val_accuracy']:.4f}")
