"""Benchmarks of handful against PyG. handful and PyG run alternately in one process, and the results are ratios of
their times.
"""
