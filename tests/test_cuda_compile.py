"""Every kernel compiles for CUDA too, which needs no GPU, and keeps to the rules that `launch` relies on."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import warp as wp

import weft
from weft.runtime.cooperative import BLOCK

ROOT = Path(weft.__file__).parent
# an H100; compiling for it takes Warp's own compiler and nothing else
ARCHITECTURE = 90


def kernel_modules():
    """The names of all modules that define kernels, found in their text: nothing is imported for the list."""
    for path in sorted(ROOT.rglob("*.py")):
        if re.search(r"^\s*@wp\.kernel", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield "weft." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")


MODULES = list(kernel_modules())


# kernels whose blocks may be a cluster are in modules of their own besides
CLUSTERS = [
    name
    for name in MODULES
    if re.search(r"^@clusterable$", Path(ROOT.parent, *name.split(".")).with_suffix(".py").read_text(), re.M)
]


def warp_module(name):
    importlib.import_module(name.replace("weft.clusters.", "weft."))
    return wp.get_module(name)


def in_cluster(name):
    return name.replace("weft.", "weft.clusters.", 1)


def test_there_are_kernels():
    assert len(MODULES) > 20 and "weft.world.world" in MODULES
    assert len(CLUSTERS) > 3


@pytest.mark.parametrize("name", MODULES)
def test_kernels_take_the_first_item_of_their_range(name):
    module = warp_module(name)
    assert module.kernels
    for kernel in module.kernels.values():
        first = kernel.adj.args[0]
        assert (first.label, first.type) == ("first", wp.int32), f"{kernel.key}: must begin with `first: int`"


@pytest.mark.parametrize("name", MODULES)
def test_no_time_is_spent_on_gradients(name):
    assert warp_module(name).options["enable_backward"] is False, "wp.set_module_options({'enable_backward': False})"


def block_sizes(module):
    """Threads of the blocks that its kernels are launched with: those that take `threads` have blocks of their own."""
    sizes = set()
    for kernel in module.kernels.values():
        in_blocks = any(arg.label == "threads" for arg in kernel.adj.args)
        # threads of a block, and perhaps blocks of a multiprocessor
        bounds = kernel.options.get("launch_bounds") or BLOCK
        sizes.add((bounds[0] if isinstance(bounds, tuple) else bounds) if in_blocks else 256)
    return sorted(sizes)


@pytest.mark.skipif(sys.platform == "darwin", reason="Warp has no CUDA compiler there")
@pytest.mark.parametrize("name", [*MODULES, *map(in_cluster, CLUSTERS)])
def test_compiles_for_cuda(name, tmp_path, monkeypatch):
    """To the end: an assembler knows how much memory blocks share, and how many registers there are."""
    module = warp_module(name)
    for size in block_sizes(module):
        monkeypatch.setitem(module.options, "block_dim", size)
        written = wp.compile_aot_module(name, arch=ARCHITECTURE, module_dir=tmp_path / str(size), use_ptx=False)
        code = b"".join(path.read_bytes() for path in written)
        for kernel in module.kernels.values():
            # generic kernels are compiled for the types that they are launched with
            for one in kernel.overloads.values() if kernel.is_generic else [kernel]:
                assert f".text.{one.get_mangled_name()}_cuda_kernel_forward".encode() in code, one.key
