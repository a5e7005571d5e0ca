"""How kernels run, on the CPU and on CUDA: launching, threads, cooperative kernels, CUDA graphs, buffers."""

from weft.runtime.launch import get_threads, launch, set_threads

__all__ = ["get_threads", "launch", "set_threads"]
