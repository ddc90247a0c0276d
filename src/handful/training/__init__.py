"""The training loop, optimisers, exact inference, metrics, checkpoints and records of runs."""
