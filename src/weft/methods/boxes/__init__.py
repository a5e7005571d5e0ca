"""`boxes`: Liu, Ko and Chang 1998. `method.py` is the step; the other files are what only this method uses."""
