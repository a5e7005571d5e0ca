"""Memory that the threads of a block share on a card: some vectors, read ten times as fast as from anywhere else."""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})

# vectors that there is room for: a block may have 48 kB, of which Warp takes two
ROOM = 1856


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ double room[3 * {ROOM}];
#else
    static double room[3 * {ROOM}];
#endif
    return (wp::uint64)room;
    """
)
def shelf() -> wp.uint64:
    """Where it is; a CPU has one, for one thread."""
    ...


@wp.func_native(
    f"""
    const double* room = (const double*)shelf;
    return wp::vec_t<3, double>(room[i], room[i + {ROOM}], room[i + {2 * ROOM}]);
    """
)
def take_off(shelf: wp.uint64, i: int) -> wp.vec3d:
    """Vector i."""
    ...


@wp.func_native(
    f"""
    double* room = (double*)shelf;
    room[i] = v[0];
    room[i + {ROOM}] = v[1];
    room[i + {2 * ROOM}] = v[2];
    """
)
def put_on(shelf: wp.uint64, i: int, v: wp.vec3d):
    """Write vector i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory");
#endif
    """
)
def meet_first(threads: int):
    """Wait until the first so many threads of the block are here: a multiple of 32."""
    ...
