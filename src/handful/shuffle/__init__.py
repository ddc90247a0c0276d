"""The shuffle of an epoch: read the edges and features once, and distribute them to the parts."""
