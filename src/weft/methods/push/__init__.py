"""`push`: Draping on meshes. `method.py` is the step; the other files are what only this method uses."""
