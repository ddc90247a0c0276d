"""PyG's GraphSAGE in `hf.fit`, and the same weights in handful's layers: seconds per epoch by turns, and accuracy.

python examples/pyg_accelerate.py [DATASET [EPOCHS [ROUNDS]]]
"""

import sys

import torch
from torch_geometric.nn import GraphSAGE

import handful as hf
from handful.bench.harness import measure_by_turns

name, epochs, rounds = [*sys.argv[1:], *["debian", "20", "3"][len(sys.argv) - 1 :]]
graph = hf.load(name)
accuracies: dict[str, list[float]] = {"PyG": [], "accelerated": []}


def train(way: str) -> float:
    """Train a new model; the seconds of an epoch without its evaluation."""
    seed = len(accuracies[way])
    torch.manual_seed(seed)
    model = GraphSAGE(graph.num_features, 256, 3, graph.num_outputs, dropout=0.5, norm="batch_norm")
    if way == "accelerated":
        model = hf.accelerate(model)
    run = hf.fit(model, graph, hf.RandomNodes(parts=4), seed=seed, epochs=int(epochs), lr=0.005, evaluate_every=5)
    accuracies[way].append(run.test)
    return run.epoch_seconds


turns = measure_by_turns({way: lambda way=way: train(way) for way in accuracies}, int(rounds), print)
for way, seconds in turns.medians.items():
    scores = torch.tensor(accuracies[way])
    spread = scores.std() if len(scores) > 1 else 0.0
    print(f"{way:12} {seconds:.2f} s per epoch, test {graph.metric or 'accuracy'} {scores.mean():.3f} ± {spread:.3f}")
print(f"{turns.ratio('PyG', 'accelerated'):.1f} times as fast per epoch")
