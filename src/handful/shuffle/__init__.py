"""An epoch as one shuffle: stream the edges once, and send survivors and rows to where their part waits."""
