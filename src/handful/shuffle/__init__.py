"""An epoch as one shuffle: read the edges once, and send the kept edges and feature rows to their parts."""
