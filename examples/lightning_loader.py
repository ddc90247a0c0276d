"""A Lightning data module of handful's loaders, on one process or on several, each with its share of the nodes.

python lightning_loader.py [epochs] [processes]
"""

import sys

import torch
from lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import handful
from handful.convert import to_pyg
from handful.pyg import NeighborLoader, RandomNodeLoader


class Nodes(LightningDataModule):
    def __init__(self, data: Data) -> None:
        super().__init__()
        self.data = data

    def train_dataloader(self) -> RandomNodeLoader:
        return RandomNodeLoader(self.data, num_parts=10, shuffle=True)

    def val_dataloader(self) -> NeighborLoader:
        return NeighborLoader(self.data, num_neighbors=[-1, -1], input_nodes=self.data.val_mask, batch_size=2048)


class Classifier(LightningModule):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.model = GraphSAGE(features, hidden_channels=64, num_layers=2, out_channels=classes)
        self.seen = 0

    def training_step(self, batch: Data, _: int) -> torch.Tensor:
        self.seen += batch.num_nodes
        out = self.model(batch.x, batch.edge_index)[batch.train_mask]
        return cross_entropy(out, batch.y[batch.train_mask])

    def validation_step(self, batch: Data, _: int) -> None:
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
        right = (out.argmax(1) == batch.y[: batch.batch_size]).float().mean()
        self.log("val_accuracy", right, batch_size=batch.batch_size, prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
processes = int(sys.argv[2]) if len(sys.argv) > 2 else 1
seed_everything(42)
data = to_pyg(handful.load("debian", split="rh"))
model = Classifier(data.num_features, int(data.y.max()) + 1)
trainer = Trainer(
    max_epochs=epochs,
    accelerator="cpu",
    devices=processes,
    strategy="ddp" if processes > 1 else "auto",
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(model, datamodule=Nodes(data))
print(f"process {trainer.global_rank} of {processes}: {model.seen // epochs} of {data.num_nodes} nodes an epoch")
if trainer.is_global_zero:
    print(f"val accuracy {trainer.callback_metrics['val_accuracy']:.4f}")
