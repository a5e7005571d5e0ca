"""The implicit half step against dense solves, its spring forces by differences, momentum, pins, threads."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics.air import Air
from weft.dynamics.springs import BEND, from_mesh, from_pairs
from weft.mesh import TriMesh, shapes
from weft.methods.robust.end_velocity import EndVelocitySolver, strain_stencils
from weft.runtime import get_threads, launch, set_threads
from weft.scene import Forces, Material
from weft.world import State, World

STEP = 1.0 / 360.0
WEIGHTLESS = Forces(gravity=(0.0, 0.0, 0.0))


def vec(a):
    return wp.array(a, dtype=wp.vec3d, device="cpu")


class Sheet:
    """A crumpled sheet in motion and its half step."""

    def __init__(self, cells=5, *, forces=WEIGHTLESS, pinned=(), curved=False, seed=0, **options):
        mesh = shapes.grid((0.3, 0.3), (cells, cells))
        if curved:
            bent = mesh.vertices + np.array([0.0, 1.0, 0.0]) * mesh.vertices[:, :1] ** 2
            mesh = TriMesh(bent, mesh.faces)
        rng = np.random.default_rng(seed)
        self.mesh, self.material = mesh, Material(damping=2e-4)
        self.network = from_mesh(mesh, self.material)
        self.x = mesh.vertices + rng.normal(scale=0.02 / cells, size=mesh.vertices.shape)
        self.v = rng.normal(scale=0.3, size=self.x.shape)
        self.mass = rng.uniform(0.5, 1.5, len(self.x)) * 0.01 / len(self.x)
        inverse = 1.0 / self.mass
        inverse[list(pinned)] = 0.0
        self.target = self.x + STEP * rng.normal(scale=0.2, size=self.x.shape)
        self.forces = forces
        air = Air(forces, mesh.faces, len(self.x))
        weights = wp.array(inverse, dtype=wp.float64, device="cpu")
        self.end_velocity_solver = EndVelocitySolver(self.network, self.mass, weights, air, **options)

    def end_velocity(self, t=0.5 * STEP):
        """As `robust` asks for it: the cloth came to x with the average velocity v."""
        start = State(vec(self.x - STEP * self.v), vec(self.v))
        end = vec(np.zeros_like(self.x))
        solution = self.end_velocity_solver.take(start, vec(self.target), STEP, vec(self.x), vec(self.v), t, end)
        assert solution.converged
        return end.numpy()

    def stencils(self):
        """Vertices, weights, rest length, stiffness and damping of every spring, one by one."""
        n = self.network
        for k in np.flatnonzero(n.kind != BEND):
            yield n.pairs[k], np.array([-1.0, 1.0]), n.rest[k], n.stiffness[k], n.damping[k]
        for k in range(len(n.quads)):
            yield n.quads[k], n.weights[k], n.quad_rest[k], n.quad_stiffness[k], n.quad_damping[k]

    def dense(self, t):
        """The matrix and the right-hand side as plainly as can be."""
        count = len(self.x)
        a = np.kron(np.diag(self.mass * (1.0 + t * self.forces.air_damping)), np.eye(3))
        b = self.mass[:, None] * (self.v + t * np.asarray(self.forces.gravity))
        for vertices, weights, rest, stiffness, damping in self.stencils():
            r = weights @ self.x[vertices]
            b[vertices] += t * np.outer(weights, pull(r, rest, stiffness))
            along = np.outer(r, r) / (r @ r) if rest > 0.0 else np.eye(3)
            own = t * damping * along + t * t * semidefinite(slope(r, rest, stiffness))
            jacobian = np.zeros((3, 3 * count))
            for vertex, weight in zip(vertices, weights, strict=True):
                jacobian[:, 3 * vertex : 3 * vertex + 3] = weight * np.eye(3)
            a += jacobian.T @ own @ jacobian
        return a, b.ravel()


def pull(r, rest, stiffness):
    """Force of a spring on what it adds up, from its energy k/2 (|r| - rest)^2."""
    length = np.linalg.norm(r)
    return -stiffness * (length - rest) * r / length


def slope(r, rest, stiffness):
    """Minus the derivative of the force."""
    length = np.linalg.norm(r)
    line = np.outer(r, r) / length**2
    return stiffness * (line + (1.0 - rest / length) * (np.eye(3) - line))


def semidefinite(a):
    values, vectors = np.linalg.eigh(a)
    return vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("forces", [Forces(), Forces(gravity=(1.0, 2.0, 3.0), air_damping=0.7)])
def test_the_answer_is_that_of_a_dense_solve(curved, forces):
    sheet = Sheet(curved=curved, forces=forces, tolerance=1e-13)
    expected = np.linalg.solve(*sheet.dense(0.5 * STEP)).reshape(-1, 3)
    # the solver stops at 1e-9 m/s whatever its tolerance
    assert np.abs(sheet.end_velocity() - expected).max() < 1e-8


def test_pinned_vertices_keep_their_velocity_and_the_others_feel_it():
    pinned = [0, 7, 20]
    sheet = Sheet(pinned=pinned, tolerance=1e-13)
    found = sheet.end_velocity()
    given = (sheet.target - (sheet.x - STEP * sheet.v)) / STEP
    assert found[pinned] == pytest.approx(given[pinned], abs=1e-12)
    a, b = sheet.dense(0.5 * STEP)
    fixed = np.zeros(len(b), bool)
    fixed.reshape(-1, 3)[pinned] = True
    rest = np.linalg.solve(a[~fixed][:, ~fixed], b[~fixed] - a[~fixed][:, fixed] @ found.ravel()[fixed])
    assert found.ravel()[~fixed] == pytest.approx(rest, abs=1e-8)


@pytest.mark.parametrize("rest", [0.0, 0.8, 1.3])
def test_the_derivative_of_a_springs_force_by_differences(rest):
    """Of a spring without length, a stretched one, and a compressed one, whose push to the side is left out."""
    r, t, stiffness, nudge = np.array([0.6, -0.5, 0.62]), 0.1, 37.0, 1e-6
    matrices, along = wp.zeros(1, dtype=wp.mat33d, device="cpu"), wp.zeros(1, dtype=wp.vec3d, device="cpu")

    def measure(r, u):
        stencil = [wp.array([[0, 1, 1, 1]], dtype=wp.vec4i, device="cpu")]
        stencil += [wp.array([[-1.0, 1.0, 0.0, 0.0]], dtype=wp.vec4d, device="cpu")]
        stencil += [wp.array([value], dtype=wp.float64, device="cpu") for value in (rest, stiffness, 0.0)]
        inputs = [vec(np.stack([np.zeros(3), r])), vec(np.stack([np.zeros(3), u])), *stencil, t, matrices, along]
        launch(strain_stencils, 1, inputs)
        return matrices.numpy()[0] / t**2, along.numpy()[0] / t

    found, force = measure(r, np.zeros(3))
    assert force == pytest.approx(pull(r, rest, stiffness), rel=1e-12)
    ways = nudge * np.eye(3)
    differences = np.stack([(measure(r - d, 0 * r)[1] - measure(r + d, 0 * r)[1]) / (2 * nudge) for d in ways], axis=1)
    assert found == pytest.approx(semidefinite(differences), abs=1e-6)
    # and a velocity takes from the right-hand side what the matrix gives to the left
    u = np.array([0.3, 0.1, -0.2])
    assert measure(r, u)[1] == pytest.approx(force - t * found @ u, rel=1e-12)


@pytest.mark.parametrize("tolerance", [0.3, 1e-3])
def test_springs_change_no_momentum_however_roughly_it_is_solved(tolerance):
    sheet = Sheet(cells=14, tolerance=tolerance)
    before, after = sheet.mass @ sheet.v, sheet.mass @ sheet.end_velocity()
    assert np.abs(after - before).max() < 1e-14 * np.abs(sheet.mass[:, None] * sheet.v).sum()


def test_cloth_at_rest_length_only_falls():
    sheet = Sheet(forces=Forces())
    sheet.x, sheet.v = sheet.mesh.vertices, np.tile([0.3, -0.2, 0.1], (len(sheet.x), 1))
    t = 0.4 * STEP
    assert sheet.end_velocity(t) == pytest.approx(sheet.v + t * np.array(Forces().gravity), abs=1e-12)


def test_a_spring_far_too_stiff_for_an_explicit_half_step_stays_calm():
    """Its frequency times the half step is 44: explicitly its ends would leave with 60 times their speed."""
    network = from_pairs(np.array([[0, 1]]), np.array([0.1]), np.array([1e5]))
    mass = np.full(2, 1e-4)
    air = Air(WEIGHTLESS, np.zeros((0, 3), np.int32), 2)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    end_velocity_solver = EndVelocitySolver(network, mass, inverse, air, tolerance=1e-12)
    x = np.array([[0.0, 0.0, 0.0], [0.101, 0.0, 0.0]])
    v = np.array([[0.0, 0.0, 0.0], [0.01, 0.0, 0.0]])
    end, t = vec(np.zeros((2, 3))), 0.5 * STEP
    end_velocity_solver.take(State(vec(x), vec(v)), vec(x), STEP, vec(x), vec(v), t, end)
    closing = end.numpy()[0, 0] - end.numpy()[1, 0]
    # it would be back at rest length after t, and not beyond
    assert 0.0 < closing < 0.001 / t


def test_threads_do_not_change_a_byte():
    found, threads = [], get_threads()
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(Sheet(cells=40, forces=Forces()).end_velocity().tobytes())
    finally:
        set_threads(threads)
    assert found[0] == found[1] == found[2]


def world_at_rest(**scene):
    world = World(weft.Scene(**scene))
    state = world.initial_state()
    world.begin_step(state, STEP)
    return world, state


@pytest.mark.parametrize("kind", ["spring", "weld"])
def test_an_open_seam_closes_and_not_too_far(kind):
    """Two sheets whose borders are sewn are a centimetre apart."""
    gap, t = 0.01, 0.5 * STEP
    shape = weft.Grid(size=(0.2, 0.2), cells=(4, 4))
    sheets = [
        weft.Cloth(name=name, shape=shape, placement=weft.Placement(position=(x, 0.0, 0.0)))
        for name, x in (("left", -0.1 - gap / 2), ("right", 0.1 + gap / 2))
    ]
    x = shapes.grid((0.2, 0.2), (4, 4)).vertices
    borders = [np.flatnonzero(np.isclose(x[:, 0], side)) for side in (0.1, -0.1)]
    stitches = [(int(a), int(b), int(b)) for a, b in zip(*borders, strict=True)]
    seam = weft.Seam(cloth="left", to="right", vertices=stitches, kind=kind)
    world, state = world_at_rest(forces=WEIGHTLESS, cloths=sheets, seams=[seam])
    end_velocity_solver, end = EndVelocitySolver.from_world(world), wp.zeros_like(state.v)
    assert end_velocity_solver.take(state, world.target, STEP, state.x, state.v, t, end).converged
    found = end.numpy()
    closing = (found[borders[0]] - found[len(x) + borders[1]])[:, 0]
    assert (closing > 0.01 * gap / t).all() and (closing < gap / t).all()


def test_wind_gives_its_momentum():
    cloth = weft.Cloth(shape=weft.Grid(size=(0.2, 0.2), cells=(4, 4)))
    forces = weft.Forces(gravity=(0.0, 0.0, 0.0), wind=weft.Wind(velocity=(1.0, 3.0, 0.0)))
    world, state = world_at_rest(forces=forces, cloths=[cloth])
    end_velocity_solver, end, t = EndVelocitySolver.from_world(world), wp.zeros_like(state.v), 0.5 * STEP
    end_velocity_solver.take(state, world.target, STEP, state.x, state.v, t, end)
    end_velocity_solver.air.blow(state.x, state.v, state.time + STEP, t)
    force = 3.0 * end_velocity_solver.air.force.numpy().sum(axis=0)
    assert force[1] > 0.0
    assert world.mass @ end.numpy() == pytest.approx(t * force, rel=1e-12, abs=1e-18)
