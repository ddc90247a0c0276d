"""PyG's GraphSAGE in a plain loop, and the same weights in handful's layers: seconds per epoch by turns, and accuracy.

python examples/pyg_accelerate.py [EPOCHS [PARTS [ROUNDS [DATASET]]]]
"""

import sys
from time import perf_counter

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import GraphSAGE

import handful as hf
from handful.bench.harness import measure_by_turns

epochs, parts, rounds, name = [*sys.argv[1:], *["20", "1", "3", "debian"][len(sys.argv) - 1 :]]
graph = hf.load(name)
data = hf.to_pyg(graph)
data.x = data.x.float()
accuracies: dict[str, list[float]] = {"PyG": [], "accelerated": []}


def new_model(way: str) -> GraphSAGE:
    torch.manual_seed(len(accuracies[way]))
    return GraphSAGE(graph.num_features, 64, 3, graph.num_outputs, dropout=0.5, norm="batch_norm")


def by_pyg() -> float:
    """A plain loop; the seconds of an epoch."""
    model = new_model("PyG")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = RandomNodeLoader(data, num_parts=int(parts), shuffle=True)
    start = perf_counter()
    for _ in range(int(epochs)):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)
            cross_entropy(out[batch.train_mask], batch.y[batch.train_mask]).backward()
            optimizer.step()
    seconds = (perf_counter() - start) / int(epochs)
    model.eval()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(1) == data.y
    accuracies["PyG"].append(right[data.test_mask].float().mean().item())
    return seconds


def accelerated() -> float:
    """The same in `hf.fit`."""
    model, seed = hf.accelerate(new_model("accelerated")), len(accuracies["accelerated"])
    sampler = hf.RandomNodes(parts=int(parts))
    settings = hf.Settings(epochs=int(epochs), lr=0.01, weight_decay=0.0, evaluate_every=int(epochs))
    run = hf.fit(model, graph, sampler, settings, seed=seed, optimizer="adam")
    accuracies["accelerated"].append(run.test)
    return run.epoch_seconds


turns = measure_by_turns({"PyG": by_pyg, "accelerated": accelerated}, int(rounds), print)
for way, seconds in turns.medians.items():
    scores = torch.tensor(accuracies[way])
    print(f"{way:12} {seconds:.2f} s per epoch, test accuracy {scores.mean():.3f} ± {scores.std(unbiased=False):.3f}")
print(f"{turns.ratio('PyG', 'accelerated'):.1f} times as fast per epoch")
