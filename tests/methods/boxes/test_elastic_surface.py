"""The elastic surface: energy, gradient, matrix, constrained solve, convergence under refinement."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.dynamics.air import Air
from weft.errors import SceneError
from weft.methods.boxes.elastic_surface import (
    BEND,
    SHEAR,
    STRETCH,
    ElasticSurface,
    Lattice,
    Limits,
    gather_lists,
    join,
    order_by_colour,
)
from weft.methods.boxes.relaxation import HalfSpaces
from weft.runtime import get_threads, set_threads
from weft.scene import Forces, Material
from weft.world import State, World

STILL = Forces(gravity=(0.0, 0.0, 0.0))


def sheet(nodes=(5, 4), spacing=(0.1, 0.13), *, material=None, forces=STILL, density=0.2, **options):
    """A sheet in the xz plane, and its positions."""
    material = material or Material(damping=0.0)
    lattice = Lattice(nodes, spacing, 0, material)
    j, i = np.divmod(np.arange(nodes[0] * nodes[1]), nodes[0])
    x = np.stack([i * spacing[0], np.zeros(len(i)), -j * spacing[1]], axis=1)
    mass = np.full(len(x), density * spacing[0] * spacing[1])
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    air = Air(forces, np.zeros((0, 3), np.int32), len(x))
    return ElasticSurface([lattice], mass, inverse, air, **options), x, mass


def crumpled(x, seed=1, size=0.02):
    return x + np.random.default_rng(seed).normal(scale=size, size=x.shape)


def assembled(surface, x, v=None, dt=0.01):
    """The system of a step as dense arrays."""
    surface.assemble(State.from_numpy(x, np.zeros_like(x) if v is None else v), dt)
    matrix, right = surface.system()
    return matrix.toarray(), right


def gradient(function, x, h=1e-6):
    """Central differences."""
    result = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = h
        result[k] = (function(x + step) - function(x - step)) / (2 * h)
    return result


def test_energy_of_simple_strains_is_that_of_a_plate():
    material = Material(stretch=700.0, shear=90.0, bend=2e-3, damping=0.0)
    nodes, spacing = (21, 17), (0.05, 0.05)
    surface, x, _ = sheet(nodes, spacing, material=material)
    area = 20 * 16 * 0.05**2
    assert surface.differences.energy(x) == pytest.approx(0.0, abs=1e-20)
    # metric 1.1^2 along x
    stretched = x * (1.1, 1.0, 1.0)
    assert surface.differences.energy(stretched) == pytest.approx(700.0 / 8 * (1.1**2 - 1) ** 2 * area)
    # pure shear in the plane: G12 is 0.2, G22 is 1 + 0.04
    sheared = x + 0.2 * x[:, 2:3] * (1.0, 0.0, 0.0)
    expected = (90.0 / 2 * 0.2**2 + 700.0 / 8 * 0.04**2) * area
    assert surface.differences.energy(sheared) == pytest.approx(expected)
    # a cylinder of radius 2: bend / (2 R^2) an area; nodes at the two ends have no second difference
    angle = x[:, 0] / 2.0
    rolled = np.stack([2 * np.sin(angle), 2 * np.cos(angle), x[:, 2]], axis=1)
    bending = surface.differences
    keep = bending.kind == BEND
    only = type(bending)(*(column[keep] for column in bending))._replace(partner=np.arange(keep.sum()))
    assert only.energy(rolled) == pytest.approx(2e-3 / (2 * 2.0**2) * area * 19 / 20, rel=1e-3)


@pytest.mark.parametrize("kind", [STRETCH, SHEAR, BEND])
def test_every_kind_of_stencil_is_there_and_sees_no_rigid_motion(kind):
    surface, x, _ = sheet()
    s = surface.differences
    assert (s.kind == kind).any()
    assert np.abs(s.weights.sum(axis=1)).max() < 1e-9
    turned = x @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0].T + 5.0
    assert s.energy(turned) == pytest.approx(0.0, abs=1e-18)


def test_gradient_of_the_assembled_system_is_that_of_the_energy():
    # A r - g at the prediction is the gradient of inertia plus energy there: with v = 0 the prediction is x
    surface, flat, _ = sheet(material=Material(stretch=50.0, shear=20.0, bend=0.01, damping=0.0))
    x = crumpled(flat)
    matrix, right = assembled(surface, x)
    residual = (matrix @ x - right.T).T
    expected = gradient(surface.differences.energy, x)
    assert np.abs(residual.T - expected).max() < 1e-6 * np.abs(expected).max()


def test_gradient_with_velocity_gravity_and_damping():
    forces = Forces(gravity=(0.3, -9.81, 0.1), air_damping=0.7)
    delay, dt = 0.02, 0.01
    surface, flat, mass = sheet(material=Material(stretch=50.0, shear=20.0, bend=0.01, damping=delay), forces=forces)
    x = crumpled(flat)
    v = np.random.default_rng(5).normal(scale=0.5, size=x.shape)
    matrix, right = assembled(surface, x, v, dt)
    s = surface.differences
    guess = x + dt * v + dt**2 * np.array(forces.gravity)

    def measured(r):
        return np.einsum("sk,skd->sd", s.weights, r[s.vertices])

    def potential(r):
        """What backward Euler minimises: inertia, weight, drag, elastic energy and the damping of its rates."""
        y, old = measured(r), measured(x)
        metric, before = ((a * a[s.partner]).sum(axis=1) for a in (y, old))
        rate = np.select(
            [s.kind == STRETCH, s.kind == SHEAR],
            [(metric - before) ** 2 / 8, (metric - before) ** 2 / 4],
            ((y - old) ** 2).sum(axis=1) / 2,
        )
        damping = delay / dt * (s.modulus * rate).sum()
        inertia = (mass[:, None] * (r - x - dt * v) ** 2).sum() / (2 * dt**2)
        drag = forces.air_damping / (2 * dt) * (mass[:, None] * (r - x) ** 2).sum()
        weight = -(mass[:, None] * r * forces.gravity).sum()
        return inertia + drag + weight + s.energy(r) + damping

    residual = matrix @ guess - right.T
    expected = gradient(potential, guess)
    assert np.abs(residual - expected).max() < 1e-5 * np.abs(expected).max()


def test_matrix_bounds_the_second_derivative_of_the_energy():
    surface, flat, mass = sheet((4, 3), material=Material(stretch=50.0, shear=20.0, bend=0.01, damping=0.0))
    for seed in range(5):
        x = crumpled(flat, seed, 0.01)
        matrix, _ = assembled(surface, x, dt=0.01)
        assert np.allclose(matrix, matrix.T)
        stiffness = matrix - np.diag(mass) / 0.01**2
        h = 1e-5
        hessian = np.zeros((x.size, x.size))
        for k in range(x.size):
            step = np.zeros(x.size)
            step[k] = h
            ahead, behind = (
                gradient(surface.differences.energy, (x.ravel() + e).reshape(-1, 3)) for e in (step, -step)
            )
            hessian[k] = (ahead - behind).ravel() / (2 * h)
        excess = np.kron(stiffness, np.eye(3)) - 0.5 * (hessian + hessian.T)
        assert np.linalg.eigvalsh(excess).min() > -1e-3 * np.abs(hessian).max()


def free(count):
    """No limits, on the host."""
    return Limits(*(np.full((3, count), end) for end in (-np.inf, np.inf)))


def solve(surface, limits, **options):
    """Solve within limits of the host."""
    for array, values in zip(surface.limits, limits, strict=True):
        array.assign(values)
    return surface.solve(**options)


def limits_from(seed, count, x):
    """Random intervals around the rest, some open, some closed to a point."""
    rng = np.random.default_rng(seed)
    limits = free(count)
    centre = x.T + rng.normal(scale=0.03, size=(3, count))
    width = rng.choice([0.0, 0.01, 0.05], size=(3, count))
    below, above = rng.random((3, count)) < 0.4, rng.random((3, count)) < 0.4
    limits.lower[below] = (centre - width)[below]
    limits.upper[above] = (centre + width)[above]
    return limits


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_constrained_solve_stays_in_its_intervals_and_solves_the_bounded_problem(seed):
    surface, flat, _ = sheet(forces=Forces(), tolerance=1e-10, most_sweeps=5000)
    x = crumpled(flat, seed)
    matrix, right = assembled(surface, x)
    limits = limits_from(seed, len(x), x)
    assert solve(surface, limits).converged
    r = surface.r.numpy()
    assert (r >= limits.lower).all() and (r <= limits.upper).all()
    # Karush, Kuhn, Tucker: force only where a limit holds, and only inwards
    force = (matrix @ r.T - right.T).T
    scale = np.abs(right).max()
    inside = (r > limits.lower) & (r < limits.upper)
    assert np.abs(force[inside]).max(initial=0.0) < 1e-5 * scale
    assert force[(r == limits.lower) & (r < limits.upper)].min(initial=0.0) > -1e-5 * scale
    assert force[(r == limits.upper) & (r > limits.lower)].max(initial=0.0) < 1e-5 * scale


def test_nodes_of_a_colour_are_not_coupled():
    grids = [Lattice((7, 6), (0.1, 0.1), 0, Material()), Lattice((1 + 5, 2), (0.1, 0.1), 42, Material())]
    order, starts = order_by_colour(grids)
    assert sorted(order.tolist()) == list(range(54))
    colour = np.zeros(54, int)
    colour[order] = np.repeat(np.arange(5), np.diff(starts))
    _, (offsets, columns), _ = gather_lists(join([grid.differences() for grid in grids]), 54)
    rows = np.repeat(np.arange(54), np.diff(offsets))
    assert len(rows) > 54 and (colour[rows] != colour[columns]).all()


def solved_one_by_one(surface, lattices, limits, start, right, *, relaxation):
    """Constrained Gauss-Seidel as in a book: one grid after the other, node by node, each coordinate by itself."""
    offsets, columns, values = (
        a.numpy() for a in (surface._system.offsets, surface._system.columns, surface._system.values)
    )
    diagonal, r = surface._system.diagonal.numpy(), start.copy()
    order = np.concatenate([grid.first + np.argsort(grid.colours(), kind="stable") for grid in lattices])
    sweeps, change = [], []
    for c in range(3):
        largest, done = np.inf, 0
        while largest > surface.tolerance and done < surface.most_sweeps:
            largest, done = 0.0, done + 1
            for i in order:
                rest = right[c, i]
                for e in range(offsets[i], offsets[i + 1]):
                    rest -= values[e] * r[c, columns[e]]
                new = r[c, i] + relaxation * (rest / diagonal[i] - r[c, i])
                new = min(max(new, limits.lower[c, i]), limits.upper[c, i])
                largest = max(largest, abs(new - r[c, i]))
                r[c, i] = new
        sweeps.append(done)
        change.append(largest)
    return r, sweeps, change


@pytest.mark.parametrize("threads", [1, 3])
def test_colours_side_by_side_give_what_one_node_after_another_gives(threads):
    # two grids that together are worth sharing; y, which nothing moves, is done before x and z
    small, large = Lattice((5, 4), (0.1, 0.1), 0, Material()), Lattice((53, 41), (0.1, 0.1), 20, Material())
    count = 20 + 53 * 41
    grids = [small, large]
    x = np.concatenate([sheet(grid.nodes, grid.spacing)[1] + (0.0, k, 0.0) for k, grid in enumerate(grids)])
    mass = np.full(count, 0.2 * 0.1**2)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    air = Air(STILL, np.zeros((0, 3), np.int32), count)
    surface = ElasticSurface(grids, mass, inverse, air, most_sweeps=4)
    x[:, [0, 2]] = crumpled(x)[:, [0, 2]]
    surface.assemble(State.from_numpy(x, np.zeros_like(x)), 0.002)
    right = surface._system.g.numpy().copy()
    limits = limits_from(3, count, x)
    limits.lower[1], limits.upper[1] = -np.inf, np.inf
    start = surface.r.numpy().copy()
    before = get_threads()
    set_threads(threads)
    try:
        solved = solve(surface, limits, relaxation=1.5)
    finally:
        set_threads(before)
    r, sweeps, change = solved_one_by_one(surface, grids, limits, start, right, relaxation=1.5)
    assert surface.r.numpy().tobytes() == r.tobytes()
    assert surface._report.sweeps.numpy().tolist() == sweeps and surface._report.change.numpy().tolist() == change
    assert sweeps[1] < sweeps[0] == solved.sweeps == 4 and not solved.converged


def test_constrained_solve_equals_the_plain_one_when_nothing_is_near_its_limit():
    surface, flat, _ = sheet(forces=Forces(), tolerance=1e-12, most_sweeps=5000)
    x = crumpled(flat)
    matrix, right = assembled(surface, x)
    plain = np.linalg.solve(matrix, right.T).T
    solve(surface, free(len(x)))
    assert np.abs(surface.r.numpy() - plain).max() < 1e-10
    assembled(surface, x)
    wide = free(len(x))
    wide.lower[:], wide.upper[:] = plain - 1e-3, plain + 1e-3
    solve(surface, wide)
    # sweeps go through other values, but to the same end
    assert np.abs(surface.r.numpy() - plain).max() < 1e-10


def half_spaces(surface, x, normal, bound, friction=0.0):
    """One half-space for every vertex, whose friction holds it where it is."""
    count, normal = len(x), np.asarray(normal, float) / np.linalg.norm(normal)
    spaces = HalfSpaces()
    spaces.offsets = wp.array(np.arange(count + 1), dtype=int, device="cpu")
    spaces.normal = wp.array(np.tile(normal, (count, 1)), dtype=wp.vec3d, device="cpu")
    spaces.bound = wp.array(np.broadcast_to(bound, count), dtype=wp.float64, device="cpu")
    spaces.anchor = wp.array(x, dtype=wp.vec3d, device="cpu")
    spaces.friction = wp.array(np.full(count, friction), dtype=wp.float64, device="cpu")
    spaces.tolerance = 1e-12
    surface.spaces = spaces


@pytest.mark.parametrize("slope_deg", [0.0, 30.0])
def test_friction_holds_up_to_its_coefficient_times_the_pressure_and_no_farther(slope_deg):
    tilt = np.radians(slope_deg)
    normal, down = np.array([np.sin(tilt), np.cos(tilt), 0.0]), np.array([np.cos(tilt), -np.sin(tilt), 0.0])
    force = 2.0 * down - 4.0 * normal
    surface, x, _ = sheet((3, 3), forces=Forces(gravity=tuple(force)), tolerance=1e-12, most_sweeps=5000)
    for friction, expected in ((0.6, 0.0), (0.25, (2.0 - 0.25 * 4.0) * 0.01**2)):
        assembled(surface, x)
        half_spaces(surface, x, normal, x @ normal, friction)
        assert solve(surface, free(len(x))).converged
        moved = surface.r.numpy().T - x
        assert moved @ normal == pytest.approx(0.0, abs=1e-12)
        assert moved @ down == pytest.approx(expected, abs=1e-12)


def test_half_spaces_across_an_axis_are_intervals():
    surface, flat, _ = sheet(tolerance=1e-12, most_sweeps=5000)
    x = crumpled(flat)
    bound = float(np.median(x[:, 1]))
    assembled(surface, x)
    limits = free(len(x))
    limits.lower[1] = bound
    solve(surface, limits)
    expected = surface.r.numpy().copy()
    assembled(surface, x)
    half_spaces(surface, x, (0.0, 1.0, 0.0), bound)
    solve(surface, free(len(x)))
    assert (surface.rests.numpy() & 2 != 0).any() and (surface.rests.numpy() & ~2 == 0).all()
    assert np.abs(surface.r.numpy() - expected).max() < 1e-9


def test_pinned_vertices_go_through_half_spaces():
    surface, x, _ = sheet((3, 3), most_sweeps=5000)
    assembled(surface, x)
    half_spaces(surface, x, (0.0, 1.0, 0.0), 5.0)
    limits = free(len(x))
    limits.lower[:, 4] = limits.upper[:, 4] = x[4]
    solve(surface, limits)
    assert surface.r.numpy()[:, 4].tolist() == x[4].tolist() and (surface.r.numpy()[1, :4] >= 5.0).all()


def test_limits_are_open_except_for_pins():
    surface, x, _ = sheet((3, 3))
    for array in surface.limits:
        array.fill_(7.0)
    surface.inverse_mass.assign(np.where(np.arange(9) == 4, 0.0, 1.0))
    surface.free()
    surface.hold_pins(wp.array(x + 1.0, dtype=wp.vec3d, device="cpu"))
    lower, upper = (array.numpy() for array in surface.limits)
    pinned = np.arange(9) == 4
    assert (lower[:, ~pinned] == -np.inf).all() and (upper[:, ~pinned] == np.inf).all()
    assert (lower[:, 4] == x[4] + 1.0).all() and (upper[:, 4] == x[4] + 1.0).all()


def test_sweeps_that_are_cut_short_say_so():
    surface, x, _ = sheet(forces=Forces(), most_sweeps=2)
    assembled(surface, crumpled(x))
    solved = solve(surface, free(len(x)))
    assert solved.sweeps == 2 and not solved.converged


def hang(cells, steps=400, dt=0.02):
    """The length of a heavy strip that hangs from its top edge, after it came to rest."""
    length = 1.0
    material = Material(stretch=20.0, shear=5.0, bend=1e-4, damping=0.2)
    nodes, spacing = (3, cells + 1), (0.1, length / cells)
    surface, x, _ = sheet(nodes, spacing, material=material, forces=Forces(air_damping=1.0), tolerance=1e-9)
    x = np.stack([x[:, 0], x[:, 2], np.zeros(len(x))], axis=1)
    # the weight of the strip of cloth around each node
    lumped = np.full(nodes[::-1], 0.2 * 0.1 * length / cells)
    lumped[[0, -1]] *= 0.5
    lumped[:, [0, -1]] *= 0.5
    surface._external.mass.assign(lumped.ravel())
    surface.inverse_mass.assign(np.where(np.arange(len(x)) < 3, 0.0, 1.0 / lumped.ravel()))
    state = State.from_numpy(x, np.zeros_like(x))
    target = wp.clone(state.x)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    for _ in range(steps):
        surface.propose(state, target, dt, x_end, v_end)
        state.take(x_end, v_end)
    assert np.abs(state.velocities()).max() < 1e-4
    return -state.positions()[-1, 1]


def test_sheet_under_gravity_converges_to_the_exact_length_under_refinement():
    # tension at s from the bottom is density g s; it is stretch/2 (l^2 - 1) l for a stretch ratio l
    s = (np.arange(4000) + 0.5) / 4000
    ratio = [max(np.roots([10.0, 0.0, -10.0, -0.2 * 9.81 * load]).real) for load in s]
    exact = np.mean(ratio)
    lengths = [hang(cells) for cells in (4, 8, 16)]
    errors = np.abs(np.array(lengths) - exact)
    assert errors[-1] < 1e-3
    # second order: halving the cells quarters the error
    assert errors[0] > 3.0 * errors[1] > 9.0 * errors[2]


def test_worlds_that_are_no_grids_are_refused():
    ball = weft.Cloth(name="ball", shape=weft.Sphere(subdivisions=1))
    with pytest.raises(SceneError, match=r"grid or strip"):
        ElasticSurface.from_world(World(weft.Scene(cloths=[ball])))


def test_strips_and_scaled_grids_have_their_own_spacing():
    cloth = weft.Cloth(
        shape=weft.Strip(length=2.0, width=0.5, cells=(8, 2)), placement=weft.Placement(scale=(1.5, 1.0, 2.0))
    )
    surface = ElasticSurface.from_world(World(weft.Scene(cloths=[cloth])))
    assert surface.tolerance == pytest.approx(1e-5 * 1.5 * 2.0 / 8)
    positions = World(weft.Scene(cloths=[cloth])).initial_state().positions()
    assert surface.differences.energy(positions) == pytest.approx(0.0, abs=1e-18)
