"""A step of `predictive` as one call: motions, wind, prediction, search and solve, on one thread of a CPU.

Python does nothing but say the time: after a search that has gone through megabytes nothing of it is in the caches, and
whatever it touches takes ten times as long. What is rare is not done here: the step then turns back and has not happened.
"""

# mypy: disable-error-code="arg-type, assignment"

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from weft.methods.predictive.arrays import Numbers
from weft.methods.predictive.candidates import remove_rigid_rotation
from weft.methods.predictive.kernels import take_state
from weft.methods.predictive.motions import SLACK, Motions
from weft.methods.predictive.search_kernel import FOUND, NOWHERE, SHORT, search_together
from weft.methods.predictive.serial_step import advance_in_order
from weft.methods.predictive.step_division import FARTHEST, MOST_PARTS
from weft.runtime import get_threads
from weft.runtime.command_list import Command, CommandList

if TYPE_CHECKING:
    from weft.methods.predictive.solver import PredictiveSolver

wp.set_module_options({"enable_backward": False})

# a prediction has so many times fewer substeps
PREDICTION = 4
# the step is one for the long way
TURN_BACK = wp.constant(1)
PARTS = wp.constant(MOST_PARTS)


@wp.kernel
def begin_at_once(
    first: int,
    clock: wp.array[wp.vec2d],
    span: wp.vec2d,
    settings: wp.array[Numbers],
    now: wp.array[wp.vec2d],
    stop: wp.array[int],
):
    """Take the time and dt; turn back where pins are others than in the span of time."""
    i = first + wp.tid()
    told = clock[i]
    now[i] = wp.vec2d(told[0], told[0] + told[1])
    settings[i].dt = told[1]
    if told[0] + SLACK < span[0] or told[0] + SLACK >= span[1]:
        stop[i] = TURN_BACK


@wp.kernel
def begin_prediction(first: int, times: int, settings: wp.array[Numbers], usual: wp.array[int]):
    """So many times fewer substeps, and no contacts."""
    i = first + wp.tid()
    usual[i] = settings[i].substeps
    settings[i].contacts = 0
    settings[i].prediction = 1
    settings[i].substeps = (usual[i] + times - 1) / times


@wp.kernel
def end_prediction(first: int, settings: wp.array[Numbers], usual: wp.array[int]):
    """As it was before."""
    i = first + wp.tid()
    settings[i].prediction = 0
    settings[i].substeps = usual[i]


@wp.kernel
def judge_relative_displacement(
    first: int, relative_displacement: wp.array[wp.float64], farthest: wp.float64, stop: wp.array[int]
):
    """Go on with the section of as many parts as `parts_for` says."""
    i = first + wp.tid()
    parts = wp.ceil(relative_displacement[i] / farthest)
    if wp.isfinite(parts) and parts > wp.float64(1.0):
        stop[i] = 1 - int(wp.min(parts, wp.float64(PARTS)))


@wp.kernel
def take_contacts(first: int, told: wp.array[int], room: int, settings: wp.array[Numbers], stop: wp.array[int]):
    """Solve what was found; turn back where there was no room for it."""
    i = first + wp.tid()
    settings[i].contacts = told[FOUND]
    if told[FOUND] > room or told[SHORT] != 0 or told[NOWHERE] != 0:
        stop[i] = TURN_BACK


class AtOnce(CommandList):
    """The chain of such steps, for the arrays that are there now.

    `motions` come first, if any; `span` are the times from and to which the pins hold what they hold now.
    """

    def __init__(
        self,
        solver: "PredictiveSolver",
        x: wp.array,
        v: wp.array,
        target: wp.array,
        motions: Motions | None,
        span: tuple[float, float],
    ) -> None:
        self._division, self._searches = solver.division, solver.searches
        clock, now = (wp.zeros(1, dtype=wp.vec2d, device="cpu") for _ in range(2))
        stop = wp.zeros(1, dtype=int, device="cpu")
        self._clock = memoryview(clock.numpy().reshape(-1))
        now = now if motions is None else motions.now
        self._course = solver.division.course(x, v, target, now)
        head: list[Command] = [(begin_at_once, 1, (clock, wp.vec2d(*span), solver.numbers, now, stop))]
        head += [] if motions is None else motions.commands(solver.colliders.end, target)
        wind = solver.air.commands(x, v, now)
        if not self._searches:
            super().__init__(stop, [*head, *wind, (advance_in_order, 1, solver.inputs(x, v, target))])
            return

        search, contacts, settings = solver.search, solver.contacts, solver.numbers
        assert search is not None and search.quick is not None
        quick, (end, end_v) = search.quick, solver.predicted
        turning, looking = search.inputs_for(solver.cloth_part(x), end, solver.radius, contacts)
        usual = wp.zeros(1, dtype=int, device="cpu")
        farthest = FARTHEST * (solver.world.largest_thickness + solver.radius)

        def predict(target: wp.array) -> list[Command]:
            return [
                (take_state, solver.count, (x, v, end, end_v)),
                (begin_prediction, 1, (PREDICTION, settings, usual)),
                (advance_in_order, 1, solver.inputs(end, end_v, target)),
                (end_prediction, 1, (settings, usual)),
                (remove_rigid_rotation, 1, turning),
            ]

        def solve(target: wp.array) -> list[Command]:
            return [
                (search_together, 1, (1, quick.alone, *looking)),
                (take_contacts, 1, (quick.told, len(contacts.arrays[0]), settings, stop)),
                (advance_in_order, 1, solver.inputs(x, v, target)),
            ]

        limit = farthest if self._division.possible else np.inf
        judge: Command = (judge_relative_displacement, 1, (turning[-1], limit, stop))
        sections = [[*head, *wind, *predict(target), judge, *solve(target)]]
        own_target = self._division.target
        others, each = [*wind, *predict(own_target)], solve(own_target)
        for parts in range(2, MOST_PARTS + 1):
            sections.append(self._division.commands(parts, self._course, each, others))
        super().__init__(stop, *sections)

    def step(self, time: float, dt: float) -> bool:
        """Whether the step is done; if not, nothing has happened."""
        if self._searches and get_threads() > 1:
            return False
        self._clock[0] = time
        self._clock[1] = dt
        # as `run` does, which is a call more
        self.all.call(0, 1)
        if self.stopped[0]:
            self._division.undo(self._course)
            return False
        return True


def can_be_at_once(solver: "PredictiveSolver") -> bool:
    """Whether steps of a serial solver can be, as they are set and with the threads that there are."""
    options, search = solver.options, solver.search
    return not solver.searches or (
        search is not None
        and search.quick is not None
        and options.predict
        and options.most_substeps is None
        and options.self_contacts == "triangles"
        and get_threads() == 1
    )
