"""The loop, optimisers, exact inference, metrics, checkpoints and records."""
