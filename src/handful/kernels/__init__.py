"""Kernels on plain arrays: numba for the CPU, Triton for GPUs, plain torch for any other device.

``csr`` builds and reads CSR matrices, ``subgraph`` extracts induced subgraphs, and ``aggregate`` multiplies by a CSR
matrix. ``threads`` provides the thread pool of all kernels.
"""
