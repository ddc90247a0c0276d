"""A service that predicts for new tables: ``RUN=shop-run uvicorn serve:app``. It needs fastapi and uvicorn."""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import handful as hf

app, run = FastAPI(), hf.open_run(os.environ["RUN"])


class Tables(BaseModel):
    """The edge list and the node table, as columns by name."""

    edges: dict[str, list[Any]]
    nodes: dict[str, list[Any]]


@app.post("/predict")
def predict(tables: Tables) -> dict[str, Any]:
    """The prediction for each node, and notes such as columns that have changed since the training."""
    notes: list[str] = []
    try:
        found = run.prediction(run.load(tables.edges, tables.nodes, say=notes.append))
    except hf.HandfulError as error:
        raise HTTPException(422, str(error)) from None
    return {"id": found.ids.tolist(), "predicted": list(map(str, found.predicted)), "notes": notes}
