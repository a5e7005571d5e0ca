"""`predictive`: Lewin 2018. `method.py` is the step; the other files are what only this method uses."""
