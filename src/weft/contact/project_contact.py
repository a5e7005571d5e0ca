"""How far the two sides of a contact part in a substep, and how far friction holds back their sliding."""

import warp as wp

wp.set_module_options({"enable_backward": False})

ONE = wp.constant(wp.float64(1.0))
# a pair that is as near as this many distances that it keeps touches
NEAR = wp.constant(wp.float64(1.1))


@wp.func
def touched(gap: wp.float64, distance: wp.float64) -> bool:
    """Whether a pair that keeps some distance touched when the step started.

    Its sliding counts from there, so that what friction lets slip in one substep is held back in the next, and layers
    that rest on each other do not creep. The two sides were apart along the normal, so they slid from nowhere. What
    comes to touch in the step has slid freely before, and counts from the start of the substep.
    """
    return gap < NEAR * distance


@wp.func
def parting(lack: wp.float64, n: wp.vec3d, r: wp.vec3d, was: wp.vec3d, mu: wp.vec2d) -> wp.vec3d:
    """How far two sides that lack some distance go apart, and back against their sliding from `was` to r."""
    slide = r - was
    slide = slide - wp.dot(slide, n) * n
    # within the cone no root is needed, which takes long where nothing else is to be done meanwhile
    squared = wp.length_sq(slide)
    held = mu[0] * lack
    part = ONE
    if squared > held * held:
        part = mu[1] * lack / wp.sqrt(squared)
    return lack * n - part * slide
