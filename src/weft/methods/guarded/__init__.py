"""`guarded`: free pairs stay free, crossing pairs are parted. `method.py` is the step, the other files are its stages."""
