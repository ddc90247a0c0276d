"""Benchmarks of handful against PyG. Both run alternately in one process, and the results are ratios."""
