"""Makes up customers and their transfers, as tables that somebody might have: ``python examples/customers.py shop``.

Fraud comes in rings: fraudulent customers mostly pay each other, are newer than others, and move round amounts. Some
numbers are missing, and a quarter of the customers, those that nobody has looked at, have no label. With ``--month 2``
the same customers come a month later: some new ones, a city that was not there before, and columns in another order.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

CITIES = ("Bergen", "Lyon", "Porto", "Turin", "Ghent")
PLANS = ("basic", "plus", "business")


def customers(count: int, month: int, rng: np.random.Generator) -> dict[str, list[object]]:
    """The columns of the customers' table."""
    fraud = rng.random(count) < 0.12
    age = np.round(rng.normal(44, 14, count).clip(18, 90))
    days = np.round(np.where(fraud, rng.gamma(2, 60, count), rng.gamma(3, 300, count)))
    city = rng.choice(CITIES, count, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    if month > 1:
        city[rng.random(count) < 0.05] = "Malmö"
        city[0] = "Malmö"
    joined = np.datetime64("2026-06-30") - days.astype("timedelta64[D]")
    looked_at = rng.random(count) < 0.75
    return {
        "customer": [f"C{i:05d}" for i in range(count)],
        "age": ["" if rng.random() < 0.08 else int(value) for value in age],
        "joined": joined.astype(str).tolist(),
        "city": city.tolist(),
        "plan": rng.choice(PLANS, count).tolist(),
        "business": [str(bool(value)).lower() for value in rng.random(count) < 0.2],
        "balance": np.round(rng.lognormal(7, 1.2, count), 2).tolist(),
        "status": [("fraud" if bad else "ok") if seen else "" for bad, seen in zip(fraud, looked_at, strict=True)],
        "secret": fraud.tolist(),
    }


def transfers(fraud: np.ndarray, rng: np.random.Generator) -> list[tuple[str, str, float]]:
    """Payments: who, to whom, how much."""
    count = len(fraud)
    payer = rng.integers(0, count, 6 * count)
    payee = rng.integers(0, count, 6 * count)
    ring = np.flatnonzero(fraud)
    inside = fraud[payer] & (rng.random(len(payer)) < 0.7)
    payee[inside] = rng.choice(ring, int(inside.sum()))
    amount = np.round(rng.lognormal(3.5, 1, len(payer)), 2)
    amount[inside] = np.round(amount[inside], -1) + 10
    kept = np.flatnonzero(payer != payee)
    return [(f"C{payer[i]:05d}", f"C{payee[i]:05d}", float(amount[i])) for i in kept]


def write(folder: Path, count: int, month: int, seed: int) -> None:
    """Write ``customers.csv`` and ``transfers.csv``, and the truth beside them."""
    rng = np.random.default_rng(seed)
    table = customers(count, 1, rng)
    payments = transfers(np.array(table["secret"]), rng)
    if month > 1:
        later = np.random.default_rng(seed + month)
        more = customers(count // 10, month, later)
        more["customer"] = [f"C{count + i:05d}" for i in range(count // 10)]
        more["status"] = [""] * (count // 10)
        table = {name: table[name] + more[name] for name in reversed(table)}
        payments += transfers(np.array(table["secret"]), later)[: count // 2]
    folder.mkdir(parents=True, exist_ok=True)
    secret = table.pop("secret")
    for name, head, rows in (
        ("customers", list(table), list(zip(*table.values(), strict=True))),
        ("transfers", ["payer", "payee", "amount"], payments),
        ("truth", ["customer", "fraud"], list(zip(table["customer"], secret, strict=True))),
    ):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerow(head)
            csv.writer(file).writerows(rows)
    print(f"{len(table['customer']):,} customers and {len(payments):,} transfers in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--month", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    write(asked.folder, asked.count, asked.month, asked.seed)


if __name__ == "__main__":
    main()
