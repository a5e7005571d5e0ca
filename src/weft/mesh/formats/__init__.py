"""One file a format: each turns a file into a `RawMesh`, or a mesh into bytes.

`weft.mesh.files` and `weft.mesh.sequences` choose among them.
"""
