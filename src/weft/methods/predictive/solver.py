"""The step of `predictive`: contacts once at its start, then substeps of sweeps over all constraints and contacts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.methods.predictive import kernels
from weft.methods.predictive.arrays import Arrays, vertex_layout
from weft.methods.predictive.attachments import attach_world
from weft.methods.predictive.collider_cull import PADDING
from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.contact_cache import keep_nearest, read_pose
from weft.methods.predictive.contacts import Contacts
from weft.methods.predictive.cooperative_substeps import advance_together
from weft.methods.predictive.cuda_graph_step import PREDICTION, make_on_gpu
from weft.methods.predictive.defaults import refined_substeps, usual_radius
from weft.methods.predictive.fabric import Fabric
from weft.methods.predictive.goals import Goals
from weft.methods.predictive.half_space_lists import HalfSpaces
from weft.methods.predictive.partitioned_substeps import advance_in_parts
from weft.methods.predictive.regions import compile_regions
from weft.methods.predictive.reservations import TOLD
from weft.methods.predictive.serial_step import advance_in_order
from weft.methods.predictive.setup import blocks_for, make_offsets, make_places, make_search, make_settings
from weft.methods.predictive.step_division import Division, fractions_for
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.scene import Predictive
from weft.world import World

# vertices below which a step is one serial launch on the CPU: threads would wait for each other at some forty colours
SERIAL_BELOW = 20_000
# vertices from which on a card has parts of them, and looks for contacts that push, instead of going through all colours
PARTS_FROM = 4096
# inputs of launches that are kept: of a step, of its prediction and of its parts
MOST_INPUTS = 8


class PredictiveSolver:
    """Moves the cloths of a world; who calls `advance` says where pins go and where colliders are."""

    def __init__(self, world: World, options: Predictive) -> None:
        self.world, self.options = world, options
        self.device = world.device
        self.count = world.cloth_vertex_count
        self.serial = self.device.is_cpu and self.count < SERIAL_BELOW
        self.blocks = blocks_for(self.device, self.count) if self.count >= PARTS_FROM and not options.cache else 0
        """parts that the vertices lie in, one for each block of a card, 0 for none: contacts have no colours then"""
        self.regions = compile_regions(world, options)
        self.fabric = Fabric(world, blocks=self.blocks)
        self.colliders = Colliders(world)
        self.goals = Goals(world, options.follow)
        self.air = Air.from_world(world)
        self.radius = options.static_radius or usual_radius(world)
        self.contacts = Contacts(self.device)
        self.search = None if options.self_contacts == "none" else make_search(world, self.regions)
        if self.search is not None:
            self.search.in_turn = not (self.device.is_cpu or self.blocks)

        def rows(dtype: Any) -> wp.array:
            return wp.zeros(self.count, dtype=dtype, device=self.device)

        self.layout = vertex_layout(world, self.regions)
        self._force, self._end, self._end_v, self.free, self._ways = (rows(wp.vec3d) for _ in range(5))
        self.predicted = self._end, self._end_v
        """positions and velocities at the end of the last prediction"""
        self._rows, self._before, self._start = (rows(wp.vec4d) for _ in range(3))
        self.reservations = rows(wp.uint64)
        """in the rounds of contacts, who comes first at each vertex"""
        self.told = wp.zeros(TOLD, dtype=int, device=self.device)
        """what threads tell each other there"""
        self._spots = wp.zeros((7, self.count + PADDING), dtype=wp.float32, device=self.device)
        # a serial step has room for a half-space of each vertex with each collider
        self.halves = HalfSpaces(world, self.colliders, self.count * self.colliders.count if self.serial else 0)
        self.numbers = make_settings(
            world, options, self.fabric, radius=self.radius, goals=self.goals.count, colliders=self.colliders.count
        )
        """what kernels read"""
        self.settings = self.numbers.numpy() if self.device.is_cpu else self.numbers.numpy().copy()
        """the numbers that a step is told, by name; they may be changed between steps"""
        self._attached = wp.zeros(0, dtype=wp.vec2i, device=self.device)
        self._lengths = wp.zeros(0, dtype=wp.float64, device=self.device)
        self._attachment_offsets = np.zeros(1, int)
        self.cached = False
        """whether contacts come from a cache"""
        self._across = wp.zeros(0, dtype=wp.vec3i, device=self.device) if self.search is None else self.search.across
        self.division = Division(self)
        self._cooperative = CooperativeLauncher(self.device)
        self._never = wp.zeros(1, dtype=int, device=self.device)
        # of a thread that waits for nobody
        self._alone = wp.zeros(4, dtype=int, device=self.device)
        self.on_gpu = make_on_gpu(self)
        """steps as one graph, where they can be"""
        self._whole = self._part = self._end
        self._taken: tuple[Any, ...] = ()
        self._inputs: dict[tuple[int, int], tuple[tuple[wp.array, ...], tuple[Any, ...]]] = {}

    def attach(self, fixed: np.ndarray) -> None:
        """Attach all vertices to those that are held."""
        if not self.options.attachments:
            return
        found = attach_world(self.world, fixed, self.options.attachment_reach)
        self._attached = wp.array(found.ends, dtype=wp.vec2i, device=self.device)
        self._lengths = wp.array(found.lengths, dtype=wp.float64, device=self.device)
        self._attachment_offsets = found.offsets

    def set_air(self, air: Air) -> None:
        """Another wind from now on."""
        self.air = air
        self.settings["windy"][0] = int(air.wind is not None)
        self._force.zero_()
        self._inputs.clear()

    def cache_contacts(self, x: wp.array) -> int:
        """Find contacts in a pose, and solve these from now on; gives their number."""
        assert self.search is not None
        radius = self.options.cache_radius or self.radius
        x = x[: self.count]
        # which of them are kept may depend on their order: that is the same everywhere
        self.search.find(x, x, radius, self.contacts, edges=False, in_turn=False)
        fixed = self.world.inverse_mass.numpy()[: self.count] == 0.0
        keep_nearest(self.contacts, x.numpy(), self.regions, fixed)
        self.settings["contacts"][0] = self.contacts.count
        self.settings["cached"][0] = 1
        self.cached = True
        return self.contacts.count

    def read_pose(self) -> wp.array | None:
        """The pose in which contacts are cached, if it is not the start."""
        if self.options.cache_pose is None:
            return None
        pose = read_pose(self.world.scene, self.options.cache_pose, self.count)
        return wp.array(pose, dtype=wp.vec3d, device=self.device)

    def advance(
        self, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float, *, divide: bool = True
    ) -> None:
        """Move x and v forward by dt, in several parts if need be and `divide` allows.

        Held vertices go to `target`, colliders from their start pose to their end.
        """
        settings = self.settings
        settings["dt"][0] = dt
        if settings["windy"][0]:
            self.air.blow(x, v, time)
        most = self.options.most_substeps
        if most is None or (self.serial and not self.searches):
            # a serial step without prediction looks itself how far cloth is stretched
            settings["most_substeps"][0] = most or 0
            if self.on_gpu is not None and not self.cached:
                parts = self.on_gpu.advance(x, v, target, dt, divide=divide and self.division.possible)
                if parts > 1:
                    self.division.advance(parts, x, v, target, time, dt)
                    self.on_gpu.brought = False
                if parts != 1:
                    return
            if not self._find_or_divide(x, v, target, time, dt, divide):
                self._solve(x, v, target)
            return
        usual = int(settings["substeps"][0])
        if divide:
            settings["substeps"][0] = refined_substeps(usual, most, self.fabric.largest_stretch(x))
        if not self._find_or_divide(x, v, target, time, dt, divide):
            self._solve(x, v, target)
        settings["substeps"][0] = usual

    @property
    def searches(self) -> bool:
        """Whether each step looks for contacts of cloth with cloth."""
        return self.search is not None and not self.cached

    def _find_or_divide(self, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float, divide: bool) -> bool:
        """Find contacts of cloth with cloth, if any; or do the whole step in parts, and say so."""
        if self.search is None or not self.searches:
            return False
        start = self.cloth_part(x)
        # the first part of a divided step looks as far as the whole step goes, but where each part is a graph
        if divide or not self.search.knows_turn(start, self._end):
            self._predict(x, v, target, dt)
        parts = 1
        if divide and self.division.possible:
            parts = fractions_for(
                self.search.relative_displacement(start, self._end, self.radius, keep=not self.blocks)
            )
        if parts > 1:
            self.division.advance(parts, x, v, target, time, dt)
        else:
            kind: Any = self.options.self_contacts
            self.settings["contacts"][0] = self.search.find(
                start, self._end, self.radius, self.contacts, kind=kind, in_colours=not (self.serial or self.blocks)
            )
        return parts > 1

    def cloth_part(self, x: wp.array) -> wp.array:
        """The vertices of the cloths; the same array for the same array, which makes launches cheap."""
        if x.shape[0] == self.count:
            return x
        if self._whole is not x:
            self._whole, self._part = x, x[: self.count]
        return self._part

    def _predict(self, x: wp.array, v: wp.array, target: wp.array, dt: float) -> None:
        """Where the cloth would go without contacts of cloth with cloth."""
        settings = self.settings
        settings["contacts"][0] = 0
        if not self.options.predict:
            if not self.device.is_cpu:
                self.numbers.assign(self.settings)
            self.begin(x, v, target)
            wp.copy(self._end, self.free)
            return
        if not self._taken or self._taken[0] is not x or self._taken[1] is not v:
            self._taken = (x, v, self._end, self._end_v)
        self._run(kernels.take_state, self.count, self._taken)
        substeps = int(settings["substeps"][0])
        settings["prediction"][0], settings["substeps"][0] = 1, -(-substeps // PREDICTION)
        self._solve(self._end, self._end_v, target)
        settings["prediction"][0], settings["substeps"][0] = 0, substeps

    def _solve(self, x: wp.array, v: wp.array, target: wp.array) -> None:
        """All substeps with the contacts that are there."""
        if not self.device.is_cpu:
            self.numbers.assign(self.settings)
            if self.on_gpu is not None:
                self.on_gpu.forget()
        if self.serial:
            launch(advance_in_order, 1, self.inputs(x, v, target))
        else:
            self._advance_together(x, v, target)

    def counts(self) -> dict[str, int]:
        """What the last step solved: contacts of cloth with cloth and with colliders, and how many of them pushed."""
        count = int(self.settings["contacts"][0])
        known = None if self.on_gpu is None else self.on_gpu.counted
        if known is None:
            halves, pushed = self.halves.tally()
            pushed += int(self.contacts.pushed.numpy()[:count].sum())
        else:
            halves, pushed = known
        cached = count if self.cached else 0
        return {
            "contacts": count + halves,
            "generated": count - cached + halves,
            "cached": cached,
            "with_colliders": halves,
            "pushed": pushed,
        }

    def _advance_together(self, x: wp.array, v: wp.array, target: wp.array) -> None:
        """All substeps in one launch, whose threads wait for each other."""
        self.begin(x, v, target)
        self.prepare_fabric(int(self.settings["substeps"][0]), prediction=x is self._end)
        self.halves.find(self.numbers, x, self.free, self.layout)
        if self.cached:
            self._refresh_contacts(x)
        self.launch_together(self.inputs(x, v, target))
        if not self.settings["prediction"][0]:
            wp.copy(self.colliders.start, self.colliders.end)

    def launch_together(self, inputs: tuple[Any, ...]) -> None:
        """All substeps; contacts and half-spaces are there."""
        if self.blocks:
            self._cooperative.launch_each(advance_in_parts, self.blocks, inputs)
            return
        # what is done to vertices is little, and once a substep
        items = max(self.count // 2, self.fabric.stretch.largest, self.fabric.bend.largest)
        self._cooperative.launch(advance_together, items, inputs)

    def inputs(self, x: wp.array, v: wp.array, target: wp.array) -> tuple[Any, ...]:
        """Settings and arrays: the same tuple as in the last step where nothing changed, which makes the launch cheap."""
        given: tuple[wp.array, ...] = (x, v, target, self._attached, self.contacts.arrays[0], self.halves.arrays[0])
        if self.search is not None:
            given = (*given, self.search.colouring.order)
        known, inputs = self._inputs.get((id(x), id(target)), ((), ()))
        if len(known) != len(given) or any(a is not b for a, b in zip(given, known, strict=True)):
            stop = self._never if self.on_gpu is None or x is self._end else self.on_gpu.told
            make = make_places if self.blocks else make_offsets
            inputs = (*self._all_inputs(x, v, target), make(self, self._attachment_offsets, stop))
            if self.serial:
                inputs = (self._alone, *inputs)
            if len(self._inputs) > MOST_INPUTS:
                self._inputs.clear()
            self._inputs[id(x), id(target)] = given, inputs
        return inputs

    def _all_inputs(self, x: wp.array, v: wp.array, target: wp.array) -> tuple[Any, ...]:
        world, items, colliders, goals = self.world, self.fabric, self.colliders, self.goals
        contacts, halves = self.contacts, self.halves
        pairs, springs = items.stretch.arrays
        arrays: Any = Arrays()
        values = (
            x, v, target, world.inverse_mass, world.thickness, *self.layout, *self.air.lists,
            pairs, springs, items.stretch.pull, items.pair_moves[int(x is self._end)],
            *items.bend.arrays, items.bend.pull,
            items.moves[int(x is self._end)], items.prepared,
            self._attached, self._lengths, goals.vertices, goals.springs, goals.starts, goals.ends,
            *contacts.arrays, contacts.pushed, contacts.triangles, self._across,
            colliders.shapes, colliders.start, colliders.end, *colliders.meshes,
            world.friction_static, world.friction_kinetic, *halves.arrays,
            self._force, self._ways, self._spots, self._rows, self._before, self._start,
        )  # fmt: skip
        for name, value in zip(Arrays.vars, values, strict=True):  # type: ignore[attr-defined]
            setattr(arrays, name, value)
        return self.numbers, arrays

    def prepare_fabric(self, substeps: int, *, prediction: bool) -> None:
        """What the springs and hinges of all substeps share."""
        per_h = float(substeps / self.settings["dt"][0])
        self.fabric.prepare(substeps, per_h, self.world.inverse_mass, prediction=prediction)

    def begin(self, x: wp.array, v: wp.array, target: wp.array) -> None:
        """Where nothing would stop the vertices."""
        inputs = [self.numbers, x, v, target, self.world.inverse_mass, *self.air.lists]
        self._run(kernels.begin_step, self.count, [*inputs, self._force, self._rows, self._before, self.free])

    def _refresh_contacts(self, x: wp.array) -> None:
        """Cached contacts at the start of a step; those that went on to other triangles have other neighbours."""
        contacts, search = self.contacts, self.search
        assert search is not None
        vertices, kinds, weights, *_ = contacts.arrays
        head = [self.layout[-1], search.across, x, vertices, kinds, contacts.triangles, weights]
        self._run(kernels.refresh_contacts, contacts.count, [*head, *self.layout[2:4]])
        search.colour(vertices, contacts.count)

    def _run(self, kernel: wp.Kernel, count: int, inputs: Sequence[Any]) -> None:
        launch(kernel, count, inputs, device=self.device)
