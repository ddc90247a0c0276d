"""An epoch as one shuffle: every edge and every row goes to the owner of its part, which is a file or a rank."""
