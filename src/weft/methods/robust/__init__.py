"""`robust`: Bridson, Fedkiw and Anderson 2002. `method.py` is the step, the other files are its stages."""
