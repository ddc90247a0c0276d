"""The shuffle of an epoch: read the edges once, and send the kept edges and feature rows to their parts."""
