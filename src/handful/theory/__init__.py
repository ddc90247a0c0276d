"""What the paper proves, made runnable: each quantity is one function, named as the paper names it."""
