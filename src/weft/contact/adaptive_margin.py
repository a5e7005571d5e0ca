"""More room for vertices that may go elsewhere than expected: those that did lately, and their neighbours.

What escaped from where it was looked for is searched again, which takes longer than to look a little farther at once. In a
large cloth somebody escaped in every step all the same; there it is seldom tried.
"""

from collections.abc import Mapping

import numpy as np
import warp as wp

from weft.geometry.cones import Cones
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

# who wandered off by so much in the last step may do so by some times as much in this one; of that room all have a part. That
# leaves a sixth of the steps in which somebody escaped, and makes boxes grow by a twentieth of the slack in the mean
WANDERING = wp.constant(wp.float64(3.0))
SPARED = wp.constant(wp.float64(0.5))
# what that is at most, in parts of the slack: who wanders farther shall stray
MOST_LEEWAY = wp.constant(wp.float64(4.0))
# what is left of it after a step
FADING = 0.8
# steps without, at most, after one in which somebody strayed all the same; each time twice as many
LONGEST_REST = 8


@wp.kernel
def _give(
    first: int,
    slack: wp.float64,
    neighbour_offsets: wp.array[int],
    neighbours: wp.array[int],
    wandered: wp.array[wp.float32],
    adaptive_margin: wp.array[wp.float64],
):
    i = first + wp.tid()
    far = wandered[i]
    for k in range(neighbour_offsets[i], neighbour_offsets[i + 1]):
        far = wp.max(far, wandered[neighbours[k]])
    adaptive_margin[i] = wp.clamp(WANDERING * wp.float64(far) - SPARED * slack, wp.float64(0.0), MOST_LEEWAY * slack)


class AdaptiveMargin:
    """How much more room each vertex has, from how far it went elsewhere than expected lately."""

    def __init__(self, vertex_count: int, cones: Cones, device: wp.Device, *, wanted: bool = True) -> None:
        """None at all where it is not wanted."""
        self.device = device
        self._wanted = wanted
        self._cones = cones
        self.wandered = wp.zeros(vertex_count, dtype=wp.float32, device=device)
        """how far each vertex ended outside its box, or what has faded of it"""
        self.array = wp.zeros(vertex_count, dtype=wp.float64, device=device)
        """of each vertex, in m"""
        # steps without any, those still to come and those of the last time
        self._rest = self._rested = 0

    @property
    def given(self) -> bool:
        """Whether there is any in this step."""
        return self._wanted and self._rest == 0

    def give(self, slack: float) -> None:
        """Find that of a step in which all vertices have so much room; launches only."""
        if not self.given:
            self.array.zero_()
            return
        inputs = [slack, self._cones.neighbour_offsets, self._cones.neighbours, self.wandered, self.array]
        launch(_give, len(self.array), inputs, device=self.device)

    def learn(self, strayed: bool) -> None:
        """Know whether somebody strayed in this step."""
        if self._rest > 0:
            self._rest -= 1
        elif strayed:
            self._rest = self._rested = min(max(1, 2 * self._rested), LONGEST_REST)
        else:
            self._rested = 0

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step depends on."""
        return {"wandered": self.wandered.numpy().copy(), "adaptive_margin": np.array([self._rest, self._rested])}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take up what `saved` gave; runs of before have nothing."""
        if "adaptive_margin" in saved:
            self.wandered.assign(saved["wandered"])
            self._rest, self._rested = (int(n) for n in saved["adaptive_margin"])
