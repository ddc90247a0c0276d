"""An epoch as one shuffle: read the edges once, and send kept edges and rows of features to their part."""
