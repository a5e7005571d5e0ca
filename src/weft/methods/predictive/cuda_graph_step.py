"""A step of `predictive` on CUDA as one graph: prediction, search and all substeps, which the host starts in one call.

Where a list has no room the step stops before its substeps: the host then repeats it launch by launch, and lists grow. A step
in which cloth moves too far for one search stops too: the host then divides it, and each fraction is such a graph.
"""

# mypy: disable-error-code="arg-type"

from functools import partial
from typing import Any, Protocol

import warp as wp

from weft.broad_phase.trees import Bvh
from weft.dynamics.air import Air
from weft.methods.predictive.bending import StepBending
from weft.methods.predictive.collider_shapes import ColliderArrays
from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.contacts import StepContactArrays, StepContacts
from weft.methods.predictive.guides import Guides
from weft.methods.predictive.half_spaces import HalfSpaceArrays, HalfSpaces
from weft.methods.predictive.list_search import (
    DEEP,
    FOUND,
    FRACTIONS,
    HALF_SPACES,
    NO_ROOM,
    PUSHED,
    REPORTED,
    SearchRoom,
)
from weft.methods.predictive.search import PredictiveSearch
from weft.methods.predictive.state import PREDICTION, Settings
from weft.runtime import launch
from weft.runtime.buffers import AsyncReadback, HostMirror
from weft.runtime.graph_cache import GraphCache, fork_join

wp.set_module_options({"enable_backward": False})


@wp.kernel
def set_stage(first: int, substeps: int, prediction: int, reported: wp.array[int], settings: wp.array[Settings]):
    """Begin the prediction, or the step; contacts are not known yet."""
    i = first + wp.tid()
    settings[i].substeps = substeps
    settings[i].prediction = prediction
    settings[i].contacts = 0
    if prediction != 0:
        for k in range(REPORTED):
            reported[k] = 0


@wp.kernel
def judge_step(
    first: int,
    mean_displacement: wp.array[wp.float64],
    farthest: wp.float64,
    most: int,
    halves: HalfSpaceArrays,
    reported: wp.array[int],
    settings: wp.array[Settings],
):
    """Set the number of contacts; stop a step that has no room for its half-spaces, or is to be divided."""
    i = first + wp.tid()
    settings[i].contacts = reported[FOUND]
    fractions = int(1)
    if wp.isfinite(mean_displacement[i]):
        fractions = wp.clamp(int(wp.ceil(mean_displacement[i] / farthest)), 1, most)
    reported[FRACTIONS] = fractions
    if fractions > 1 or halves.full[0] != 0:
        reported[NO_ROOM] += 1


@wp.kernel
def end_poses(first: int, reported: wp.array[int], colliders: ColliderArrays):
    """Colliders are at the end of the step, if it was done."""
    k = first + wp.tid()
    if reported[NO_ROOM] == 0:
        colliders.start[k] = colliders.end[k]


@wp.kernel
def count_pushed(first: int, contacts: StepContactArrays, halves: HalfSpaceArrays, reported: wp.array[int]):
    """Count half-spaces, and what moved something in the last sweep; integers, so that the order does not matter."""
    i = first + wp.tid()
    count = int(0)
    if i < wp.min(reported[FOUND], contacts.pushed.shape[0]):
        count += contacts.pushed[i]
    if i < halves.counts.shape[0]:
        for k in range(i * halves.room, i * halves.room + halves.counts[i]):
            count += halves.pushed[k]
        if halves.counts[i] > 0:
            wp.atomic_add(reported, HALF_SPACES, halves.counts[i])
    if count > 0:
        wp.atomic_add(reported, PUSHED, count)
    if i == 0:
        reported[DEEP] = contacts.deep[1]


class Stages(Protocol):
    """What a graph is made of: the arrays and the stages of the step of a `PredictiveSolver`."""

    device: wp.Device
    count: int
    radius: float
    settings: Any
    device_settings: wp.array
    predicted: tuple[wp.array, wp.array]
    search: PredictiveSearch | None
    contacts: StepContacts
    halves: HalfSpaces
    colliders: Colliders
    guides: Guides
    air: Air

    def inputs(self, x: wp.array, v: wp.array, target: wp.array) -> tuple[Any, ...]: ...
    def cloth_of(self, x: wp.array) -> wp.array: ...
    def begin(self, inputs: tuple[Any, ...]) -> None: ...
    def find_half_spaces(self, inputs: tuple[Any, ...]) -> None: ...
    def prepare_fabric(self, substeps: int, *, prediction: bool) -> None: ...
    @property
    def bending(self) -> StepBending: ...
    def launch_substeps(self, inputs: tuple[Any, ...]) -> None: ...


class GraphStep:
    """The graphs of such steps."""

    def __init__(self, solver: Stages, largest_displacement: float, most_fractions: int) -> None:
        """A step in which cloth moves by more than the largest displacement is divided into at most so many fractions."""
        assert solver.search is not None and isinstance(solver.search.broad_phase, Bvh)
        self.solver, self.search, self.lists = solver, solver.search, solver.search.lists
        self.broad_phase: Bvh = solver.search.broad_phase
        self.reported = self.lists.reported
        self.counted: tuple[int, int] | None = None
        """half-spaces and what pushed in the last step, where it was a graph"""
        self.deep = False
        """whether a contact was much nearer than its thickness after the substeps of that step"""
        self.mirrors: tuple[HostMirror, ...] = ()
        """arrays that a step copies to the host at its end"""
        self._result = AsyncReadback(self.reported)
        self._graphs = GraphCache(solver.device)
        # settings as the device has them
        self._sent = b""
        self._farthest = largest_displacement * (self.search.largest_thickness + solver.radius)
        self._most_fractions = most_fractions

    def advance(self, x: wp.array, v: wp.array, target: wp.array, *, divide: bool) -> int:
        """Do a step, if there is room for all that it finds, and it need not be divided.

        Gives 0 if it is done, else how many fractions it needs.
        """
        solver, self.counted = self.solver, None
        room, settings, contacts = self.lists.make_room(self.broad_phase), solver.settings, solver.contacts
        if room is None:
            return 1
        substeps, (end, end_v) = int(settings["substeps"][0]), solver.predicted
        settings["contacts"][0] = 0
        if self._sent != settings.tobytes():
            solver.device_settings.assign(settings)
            self._sent = settings.tobytes()
        step, prediction = (solver.inputs(*some, target) for some in ((x, v), (end, end_v)))
        most = self._most_fractions if divide else 1
        given = (*room.given, x, v, target, solver.air.force, contacts.arrays.vertices, contacts.masks)
        given = (
            *given,
            solver.halves.arrays.vertices,
            solver.guides.arrays.attached,
            solver.bending.arrays.matrix.values,
        )
        given = (*given, substeps, float(settings["dt"][0]), most)
        self._graphs.run(lambda: self._step(x, v, target, substeps, most, room, step, prediction), *given)
        self._result.mark_launched()
        reported = self._result.values()
        if reported[int(NO_ROOM)]:
            fractions = int(reported[int(FRACTIONS)])
            self.reported.zero_()
            solver.halves.grow_if_full()
            return max(fractions, 1)
        self.broad_phase.rebuild_if_due()
        settings["contacts"][0] = contacts.count = int(reported[int(FOUND)])
        self.counted = int(reported[int(HALF_SPACES)]), int(reported[int(PUSHED)])
        self.deep = bool(reported[int(DEEP)])
        return 0

    def forget(self) -> None:
        """The settings on the device are others than those that were sent, and the last step was not a graph."""
        self._sent, self.counted = b"", None

    def _step(
        self,
        x: wp.array,
        v: wp.array,
        target: wp.array,
        substeps: int,
        most: int,
        room: SearchRoom,
        step: tuple[Any, ...],
        prediction: tuple[Any, ...],
    ) -> None:
        """All launches of a step."""
        solver, few = self.solver, -(-substeps // PREDICTION)
        (end, end_v), settings, device = solver.predicted, solver.device_settings, solver.device
        colliders, contacts, halves = solver.colliders, solver.contacts, solver.halves

        # where the cloth would go; the step starts where its prediction does, and has the same half-spaces
        def begin_prediction() -> None:
            self._launch(set_stage, 1, [few, 1, self.reported, settings])
            solver.begin(step)
            solver.find_half_spaces(step)

        def prepare_prediction() -> None:
            wp.copy(end, x, count=solver.count)
            wp.copy(end_v, v, count=solver.count)
            solver.prepare_fabric(few, prediction=True)

        fork_join(device, begin_prediction, prepare_prediction)
        solver.launch_substeps(prediction)

        def begin_step() -> None:
            self._launch(set_stage, 1, [substeps, 0, self.reported, settings])
            solver.begin(step)
            solver.prepare_fabric(substeps, prediction=False)

        find = partial(self.search.find_ahead, room, solver.cloth_of(x), end, solver.radius, contacts)
        fork_join(device, find, begin_step)
        inputs = [self.search.mean_displacement, self._farthest, most, halves.arrays, self.reported, settings]
        self._launch(judge_step, 1, inputs)
        solver.launch_substeps(step)

        def report() -> None:
            self._launch(end_poses, colliders.count, [self.reported, colliders.arrays])
            items = max(contacts.room, solver.count)
            self._launch(count_pushed, items, [contacts.arrays, halves.arrays, self.reported])
            self._result.copy_to_host()

        def copy_to_host() -> None:
            for mirror in self.mirrors:
                mirror.copy_to_host()

        fork_join(device, report, copy_to_host)

    def _launch(self, kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
        launch(kernel, count, inputs, device=self.solver.device)
