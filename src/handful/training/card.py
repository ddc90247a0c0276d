"""The model card of a run folder: a ``README.md`` in the format of the Hugging Face Hub, so that the folder can be
uploaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handful.files import write_text
from handful.training.metrics import metric_of_record
from handful.training.record import RunFolder, environment, read_config, read_encoding, read_json
from handful.vocabulary import MODELS, spaced

CARD = "README.md"
TASKS = {"binary": "two classes", "multiclass": "classes", "multilabel": "several labels per node"}
TASKS |= {"regression": "a number", "links": "links to other nodes"}
LIMITS = """- The model predicts for nodes of a graph. A node needs the same features as in training, and its edges.
- Metrics hold for nodes like the test nodes of this graph. Measure again before you use the model on another graph.
- Probabilities are only as good as their calibration. Decide by the threshold of `decision.json`, if there is one."""


def write_card(folder: Path, words: str = "", tables: Sequence[str] = ()) -> None:
    """Write the model card of the run or the experiment in ``folder``.

    Args:
        folder: a folder with ``config.json``, and ``result.json`` or ``summary.json``.
        words: the conclusion of the assessment, as text.
        tables: the tables of the assessment, in Markdown.
    """
    own = RunFolder(folder)
    result = read_json(own.result if own.result.exists() else folder / "summary.json")
    config = read_config(own.config)
    first = own if own.encoding.exists() else RunFolder(folder / f"seed-{config['seeds'][0]}")
    picture = "![Calibration](calibration.svg)" if (folder / "calibration.svg").exists() else ""
    write_text(folder / CARD, make_card(config, result, read_encoding(first), [words, *tables, picture]))


def make_card(
    config: Mapping[str, Any], result: Mapping[str, Any], encoding: Mapping[str, Any], more: Sequence[str] = ()
) -> str:
    """The text of a model card. ``config``, ``result`` and ``encoding`` are records that ``handful.training.record``
    describes.

    >>> text = make_card({"graph": "debian", "model": "sage"}, {"metric": "accuracy", "test": 0.5}, {"kind": "binary"})
    >>> text.splitlines()[:2]
    ['---', 'library_name: "handful"']
    """
    metric = metric_of_record(result["metric"], result.get("higher_is_better", True))
    test, graph = result["test"], Path(str(config["graph"]).partition("?")[0]).name or "graph"
    model, kind = MODELS.get(config["model"], config["model"]), str(encoding.get("kind", "multiclass"))
    task = {"regression": "node-regression", "links": "link-prediction"}.get(kind, "node-classification")
    value = test["mean"] if isinstance(test, Mapping) else test
    measured = [{"type": metric.name, "value": value, "name": f"test {spaced(metric.name)}"}] * (value is not None)
    entry = {"task": {"type": task}, "dataset": {"name": graph, "type": graph}}
    head = {
        "library_name": "handful",
        "pipeline_tag": "graph-ml",
        "tags": ["graph-machine-learning", task, str(config["model"])],
        "metrics": [metric.name],
        "model-index": [{"name": f"{model} on {graph}", "results": [{**entry, "metrics": measured}]}],
    }
    names, schema = encoding.get("class_names") or [], encoding.get("schema")
    call = "hf.infer(run.model, graph)  # " if kind == "links" else "run.predict(graph)          # name, path or "
    columns = "named columns of tables (`encoding.json`)" if schema else "features without names"
    used = config.get("settings", {}).get("label_features", "no") not in (False, "no")
    labels = " and the labels of training neighbours" * used
    shown = ", ".join(map(str, names[:20])) + (" …" if len(names) > 20 else "")
    sections = {
        "What it predicts": f"{TASKS[kind].capitalize()} for each node of *{graph}*{f': {shown}' if names else ''}.",
        "From what": f"{encoding.get('features', 'The')} features of each node ({columns}), and its edges{labels}.",
        "How good it is": f"{metric.label('Test')}: {metric.text(test)}. {metric.label('Validation')}: "
        f"{metric.text(result.get('val', test))}. `result.json` of a seed has the best epoch and the time.",
        "Assessment": "\n\n".join(filter(None, more)),
        "Limits": LIMITS,
        "How to load it": '```python\nimport handful as hf\n\nrun = hf.open_run("this folder, or USER/REPOSITORY")\n'
        f"{call}a handful.Graph\n```",
        "Made with": ", ".join(f"{name} {text}" for name, text in environment().items()),
    }
    front = [f"{name}: {json.dumps(one, ensure_ascii=False)}" for name, one in head.items()]  # JSON is YAML
    body = [f"## {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n".join(["---", *front, "---", "", f"# {model} on {graph}", "", "\n\n".join(body), ""])
