"""A step of `predictive` on a card as one graph: prediction, search and all substeps, which the host starts in one go.

What there is no room for makes the step stop before its substeps: the host then goes the long way, on which lists grow. So does
cloth that goes too far for one look: the step is then done in parts, each of them such a graph.
"""

# mypy: disable-error-code="arg-type"

from functools import partial
from typing import TYPE_CHECKING, Any

import warp as wp

from weft.methods.predictive.arrays import Numbers
from weft.methods.predictive.kernels import take_state
from weft.methods.predictive.search_ahead import FOUND, NO_ROOM, TOLD, Room, SearchAhead
from weft.methods.predictive.step_division import LARGEST_DISPLACEMENT, MOST_FRACTIONS
from weft.runtime import launch
from weft.runtime.graph_cache import GraphCache, fork_join
from weft.runtime.readback import AsyncReadback, HostMirror

if TYPE_CHECKING:
    from weft.methods.predictive.solver import PredictiveSolver

# a prediction has so many times fewer substeps than the step
PREDICTION = 4

wp.set_module_options({"enable_backward": False})

# what is told besides: half-spaces, how many of them and of the contacts pushed in the last sweep, and how many parts the step
# is to be divided into
HALVES, PUSHED, PARTS = (wp.constant(k) for k in range(2, 5))


@wp.kernel
def set_stage(first: int, substeps: int, prediction: int, told: wp.array[int], settings: wp.array[Numbers]):
    """Begin the prediction, which has no contacts, or the step, before it is known which it has."""
    i = first + wp.tid()
    settings[i].substeps = substeps
    settings[i].prediction = prediction
    settings[i].contacts = 0
    if prediction != 0:
        for k in range(TOLD):
            told[k] = 0


@wp.kernel
def judge_step(
    first: int,
    mean_way: wp.array[wp.float64],
    farthest: wp.float64,
    most: int,
    told: wp.array[int],
    settings: wp.array[Numbers],
):
    """Give a step its contacts; stop one that goes too far for one look, and say how many parts it needs."""
    i = first + wp.tid()
    settings[i].contacts = told[FOUND]
    parts = int(1)
    if wp.isfinite(mean_way[i]):
        parts = wp.clamp(int(wp.ceil(mean_way[i] / farthest)), 1, most)
    told[PARTS] = parts
    if parts > 1:
        told[NO_ROOM] += 1


@wp.kernel
def take_poses(first: int, told: wp.array[int], start: wp.array[wp.mat44d], end: wp.array[wp.mat44d]):
    """Colliders are at the end of the step, if there was one."""
    k = first + wp.tid()
    if told[NO_ROOM] == 0:
        start[k] = end[k]


@wp.kernel
def count_pushed(
    first: int,
    contacts: int,
    vertices: int,
    pushed: wp.array[int],
    half_counts: wp.array[int],
    half_places: wp.array[int],
    half_pushed: wp.array[int],
    told: wp.array[int],
):
    """Add up what a step met; integers, so that the order does not matter."""
    i = first + wp.tid()
    count = int(0)
    if i < wp.min(told[FOUND], contacts):
        count += pushed[i]
    if i < vertices:
        for k in range(half_places[i], half_places[i] + half_counts[i]):
            count += half_pushed[k]
        if half_counts[i] > 0:
            wp.atomic_add(told, HALVES, half_counts[i])
    if count > 0:
        wp.atomic_add(told, PUSHED, count)


class OnCard:
    """The graphs of such steps."""

    def __init__(self, solver: "PredictiveSolver", ahead: SearchAhead) -> None:
        self.solver, self.ahead, self.told = solver, ahead, ahead.told
        """what a step tells: whether there was no room, contacts, half-spaces, how many of them pushed"""
        self.counted: tuple[int, int] | None = None
        """half-spaces and what pushed in the last step, where it was done here"""
        self.mirrors: tuple[HostMirror, ...] = ()
        """what a step brings to the host at its end"""
        self.brought = False
        """whether the last step did"""
        self._asked = AsyncReadback(ahead.told)
        self._graphs = GraphCache(solver.device)
        # settings as the device has them
        self._sent = b""

    def advance(self, x: wp.array, v: wp.array, target: wp.array, dt: float, *, divide: bool) -> int:
        """Do a step, if there is room for all that it finds, and it need not be divided.

        Gives 0 if it is done, else how many parts it needs.
        """
        solver, self.counted, self.brought = self.solver, None, False
        room, settings, contacts = self.ahead.make_room(), solver.settings, solver.contacts
        if room is None or not solver.halves.has_room:
            return 1
        substeps, (end, end_v) = int(settings["substeps"][0]), solver.predicted
        if not self.knows_settings():
            solver.numbers.assign(settings)
            self._sent = settings.tobytes()
        whole, prediction = (solver.inputs(*some, target) for some in ((x, v), (end, end_v)))
        given = (x, v, target, *solver.air.lists, *contacts.arrays, contacts.near, substeps, dt)
        most = MOST_FRACTIONS if divide else 1
        given = (*room.given, *given, whole[-1].attachments, prediction[-1].attachments, most)
        self._graphs.run(lambda: self._step(x, v, target, substeps, most, room, whole, prediction), *given)
        return self._finish()

    def knows_settings(self) -> bool:
        """Whether the card has the settings as they are; contacts are for it to find."""
        settings = self.solver.settings
        settings["contacts"][0] = 0
        return self._sent == settings.tobytes()

    def _finish(self) -> int:
        """Wait for a step, and take what it tells; gives what `advance` does."""
        settings = self.solver.settings
        self._asked.mark_launched()
        told = self._asked.values()
        if told[int(NO_ROOM)]:
            parts = int(told[int(PARTS)])
            self.told.zero_()
            self.counted, self.brought = None, False
            return parts
        self.ahead.broad_phase.rebuild_if_due()
        settings["contacts"][0] = self.solver.contacts.count = int(told[int(FOUND)])
        self.counted, self.brought = (int(told[int(HALVES)]), int(told[int(PUSHED)])), True
        return 0

    def forget(self) -> None:
        """The numbers on the card are others than those that were sent, and so is what was counted and brought."""
        self._sent, self.counted, self.brought = b"", None, False

    def _step(
        self,
        x: wp.array,
        v: wp.array,
        target: wp.array,
        substeps: int,
        most: int,
        room: Room,
        whole: tuple[Any, ...],
        prediction: tuple[Any, ...],
    ) -> None:
        """All launches of a step."""
        solver, (end, end_v), few = self.solver, self.solver.predicted, -(-substeps // PREDICTION)
        search, colliders, contacts, halves = solver.search, solver.colliders, solver.contacts, solver.halves
        assert search is not None

        # where the cloth would go; the step starts where its prediction does, and meets the same half-spaces
        def predict() -> None:
            self._launch(set_stage, 1, [few, 1, self.told, solver.numbers])
            solver.begin(x, v, target)
            halves.find(solver.numbers, x, solver.free, solver.layout)

        def prepare() -> None:
            self._launch(take_state, solver.count, [x, v, end, end_v])
            solver.prepare_fabric(few, prediction=True)

        fork_join(solver.device, predict, prepare)
        solver.launch_together(prediction)

        def begin() -> None:
            self._launch(set_stage, 1, [substeps, 0, self.told, solver.numbers])
            solver.begin(x, v, target)
            solver.prepare_fabric(substeps, prediction=False)

        find = partial(search.find_ahead, self.ahead, room, solver.cloth_part(x), end, solver.radius, contacts)
        fork_join(solver.device, find, begin)
        farthest = LARGEST_DISPLACEMENT * (search.largest_thickness + solver.radius)
        self._launch(judge_step, 1, [search.mean_way, farthest, most, self.told, solver.numbers])
        solver.launch_together(whole)

        def tell() -> None:
            self._launch(take_poses, colliders.count, [self.told, colliders.start, colliders.end])
            inputs = [len(contacts.pushed), solver.count, contacts.pushed]
            inputs += [halves.counts, halves.places, halves.arrays[-1], self.told]
            self._launch(count_pushed, max(len(contacts.pushed), solver.count), inputs)
            self._asked.copy_to_host()

        def copy_to_host() -> None:
            for mirror in self.mirrors:
                mirror.copy_to_host()

        fork_join(solver.device, tell, copy_to_host)

    def _launch(self, kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
        launch(kernel, count, inputs, device=self.solver.device)


def make_on_gpu(solver: "PredictiveSolver") -> OnCard | None:
    """Steps of a solver as one graph, where they can be."""
    options, search = solver.options, solver.search
    usual = options.predict and options.most_substeps is None and options.self_contacts == "triangles"
    ahead = search.make_ahead() if search is not None and usual and solver.blocks else None
    return None if ahead is None else OnCard(solver, ahead)
