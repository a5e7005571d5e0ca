"""`untangle`: Baraff, Witkin and Kass 2003. `method.py` is the step; the other files are what only this method uses."""
