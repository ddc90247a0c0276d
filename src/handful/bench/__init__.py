"""Benchmarks against PyG, by turns in one process, as ratios."""
