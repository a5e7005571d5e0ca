"""Stretch, shear, bend and stitch forces and their Jacobians against differences of energies and forces."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.dynamics.air import Air
from weft.dynamics.curvature import mean_normals
from weft.dynamics.implicit import elements as implicit_elements
from weft.dynamics.implicit.model import Implicit
from weft.mesh import TriMesh, shapes
from weft.scene import Forces, Material, Wind
from weft.world import Seams

STILL = Forces(gravity=(0.0, 0.0, 0.0))
STEP = 1e-6


def model(elements, count, forces=STILL, faces=None):
    mass = np.full(count, 0.01)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    air = Air(forces, np.zeros((0, 3), np.int32) if faces is None else faces, count)
    return Implicit(elements, mass, inverse, air)


def vec(a):
    return wp.array(a, dtype=wp.vec3d, device="cpu")


def force(m, x, v):
    """F: the right-hand side of a step of 1 s without its dF/dx (v + y), which y = -v takes out."""
    return right_hand_side(m, x, v, -v, 1.0)


def right_hand_side(m, x, v, shift, h):
    """The right-hand side of a step h with position corrections, by vertices."""
    m.constraints.shift.assign(shift)
    m._blow(vec(x), vec(v), 0.0)
    m._strain(vec(x), vec(v), h)
    m.matrix.right_hand_side(m._terms, m._external, vec(v), m.constraints.push, h, m._b)
    return m._b.numpy()[m.matrix.row_of.numpy()]


def matrix(m, x, v, h):
    """The matrix of the step without the mass, dense, by vertices."""
    m.constraints.shift.zero_()
    m._blow(vec(x), vec(v), 0.0)
    m._strain(vec(x), vec(v), h)
    m.matrix.assemble(m._terms, m._external, h)
    full = np.zeros((m.count, 3, m.count, 3))
    order = m.matrix.order.numpy()
    for r, c, block in zip(m.matrix.rows.numpy(), m.matrix.columns.numpy(), m.matrix.blocks.numpy(), strict=True):
        full[order[r], :, order[c], :] += block
    full = full.reshape(3 * m.count, 3 * m.count)
    return full - np.diag(np.repeat(m._external.mass.numpy(), 3))


def gradient(function, x):
    """Central differences of a function of positions; the new axes come last."""
    rows = []
    for i in range(x.size):
        up, down = x.copy().ravel(), x.copy().ravel()
        up[i] += STEP
        down[i] -= STEP
        rows.append((np.asarray(function(up.reshape(x.shape))) - function(down.reshape(x.shape))) / (2.0 * STEP))
    return np.moveaxis(np.array(rows), 0, -1)


def strain_energy(mesh, material, x):
    """Stretch and shear of the triangles, straight from the deformation gradient."""
    f = mesh.faces
    rest = np.stack([mesh.uv[f[:, 1]] - mesh.uv[f[:, 0]], mesh.uv[f[:, 2]] - mesh.uv[f[:, 0]]], axis=2)
    now = np.stack([x[f[:, 1]] - x[f[:, 0]], x[f[:, 2]] - x[f[:, 0]]], axis=2)
    w = now @ np.linalg.inv(rest)
    wu, wv = w[:, :, 0], w[:, :, 1]
    stretch = (np.linalg.norm(wu, axis=1) - 1.0) ** 2 + (np.linalg.norm(wv, axis=1) - 1.0) ** 2
    shear = (wu * wv).sum(axis=1) ** 2
    return 0.5 * (mesh.rest_areas * (material.stretch * stretch + material.shear * shear)).sum()


def fold(x):
    """Angle of a hinge a, b, c, d by unit normals; positive where c and d rise on the side of the normals."""
    a, b, c, d = x
    n1, n2 = np.cross(b - a, c - a), np.cross(a - b, d - b)
    n1, n2 = n1 / np.linalg.norm(n1), n2 / np.linalg.norm(n2)
    # by sine and cosine: an arc cosine says little about small angles
    size = np.arctan2(np.linalg.norm(np.cross(n1, n2)), n1 @ n2)
    return size if (d - a) @ n1 > 0.0 else -size


def floats(low, high):
    return st.floats(low, high, allow_nan=False)


corners = st.lists(floats(-0.4, 0.4), min_size=9, max_size=9)
FLAT = np.array([[0.0, 0.0], [1.0, 0.1], [0.3, 0.8]])


def triangle(noise, material):
    """A triangle of a flat rest shape, moved at random."""
    start = np.column_stack([FLAT[:, 0], np.zeros(3), FLAT[:, 1]])
    mesh = TriMesh(start, np.array([[0, 1, 2]]), FLAT)
    x = start + np.array(noise).reshape(3, 3)
    return mesh, model(implicit_elements.from_mesh(mesh, material), 3), x


def axes(mesh, x):
    elements = implicit_elements.from_mesh(mesh, Material())
    return elements.p[0] @ x, elements.q[0] @ x


@settings(max_examples=60, deadline=None)
@given(corners)
def test_the_force_of_a_triangle_is_the_slope_of_its_energy(noise):
    material = Material(stretch=3.0, shear=0.7, bend=0.0, damping=0.0)
    mesh, m, x = triangle(noise, material)
    slope = gradient(lambda y: strain_energy(mesh, material, y), x).reshape(3, 3)
    assert force(m, x, np.zeros_like(x)) == pytest.approx(-slope, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(corners)
def test_the_jacobian_of_a_triangle_is_the_slope_of_its_force_but_for_what_is_dropped(noise):
    """The dropped part is known: the compressed stretch terms and the negative part of the shear term."""
    material = Material(stretch=3.0, shear=0.7, bend=0.0, damping=0.0)
    mesh, m, x = triangle(noise, material)
    slope = gradient(lambda y: force(m, y, np.zeros_like(y)).ravel(), x)
    assembled = matrix(m, x, np.zeros_like(x), 1.0)

    elements = implicit_elements.from_mesh(mesh, material)
    p, q, area = elements.p[0], elements.q[0], mesh.rest_areas[0]
    wu, wv = axes(mesh, x)
    dropped = np.zeros((9, 9))
    for weights, w in ((p, wu), (q, wv)):
        length = np.linalg.norm(w)
        if length < 1.0:
            across = np.eye(3) - np.outer(w, w) / length**2
            dropped += area * material.stretch * (length - 1.0) / length * np.kron(np.outer(weights, weights), across)
    s = area * material.shear * (wu @ wv)
    side = -1.0 if s > 0.0 else 1.0
    mixed = p / np.linalg.norm(p) + side * q / np.linalg.norm(q)
    half = 0.5 * abs(s) * np.linalg.norm(p) * np.linalg.norm(q)
    dropped -= half * np.kron(np.outer(mixed, mixed), np.eye(3))
    assert assembled + dropped == pytest.approx(-slope, abs=2e-6)


@settings(max_examples=40, deadline=None)
@given(corners, corners)
def test_the_right_hand_side_follows_the_motion_by_the_same_matrix(noise, motion):
    """h (F + dF/dx (h v + y)): without damping the matrix of the step is -h^2 dF/dx."""
    _mesh, m, x = triangle(noise, Material(stretch=3.0, shear=0.7, bend=0.0, damping=0.0))
    y, still, h = np.array(motion).reshape(3, 3), np.zeros_like(x), 0.3
    change = right_hand_side(m, x, still, y, h) - right_hand_side(m, x, still, still, h)
    assert change.ravel() == pytest.approx(-matrix(m, x, still, h) @ y.ravel() / h, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(corners, corners)
def test_triangles_give_a_symmetric_positive_semidefinite_matrix(noise, speed):
    material = Material(stretch=3.0, shear=0.7, bend=0.0, damping=0.05)
    _mesh, m, x = triangle(noise, material)
    a = matrix(m, x, np.array(speed).reshape(3, 3), 0.3)
    assert a == pytest.approx(a.T, abs=1e-14)
    assert np.linalg.eigvalsh(a).min() > -1e-12


@settings(max_examples=40, deadline=None)
@given(corners, corners)
def test_damping_of_a_triangle_is_the_slope_over_velocity(noise, speed):
    """-dF/dv is what damping adds to the matrix of a step, linear in the step."""
    undamped, damped = (Material(stretch=3.0, shear=0.7, bend=0.0, damping=d) for d in (0.0, 0.1))
    _mesh, m, x = triangle(noise, damped)
    v = np.array(speed).reshape(3, 3)
    slope = gradient(lambda u: force(m, x, u).ravel(), v)
    # with s the same in both, only the Gauss-Newton part differs: at rest no term is clamped
    _mesh, without, x = triangle(noise, undamped)
    still = np.zeros_like(x)
    difference = matrix(m, x, still, 1.0) - matrix(without, x, still, 1.0)
    assert difference == pytest.approx(-slope, abs=1e-7)
    # and it takes power, whatever the motion
    loss = (force(m, x, v) - force(m, x, still)).ravel() @ v.ravel()
    assert loss <= 1e-12


def hinge_model(x, material, rest=0.0):
    """A hinge whose flat rest shape is that of x unfolded."""
    a, b, c, d = x
    along = (b - a) / np.linalg.norm(b - a)

    def flat(p, side):
        across = p - a - along * ((p - a) @ along)
        return [(p - a) @ along, side * np.linalg.norm(across)]

    uv = np.array([[0.0, 0.0], [np.linalg.norm(b - a), 0.0], flat(c, 1.0), flat(d, -1.0)])
    mesh = TriMesh(np.column_stack([uv, np.zeros(4)]), np.array([[0, 1, 2], [1, 0, 3]]), uv)
    elements = implicit_elements.from_mesh(mesh, material)
    hinges = elements.hinges
    assert (hinges.quads == [[0, 1, 2, 3]]).all()
    hinges.rest[:] = rest
    # both triangles take the share of the jump that makes their energy least: springs in series
    first, second = (_own_stiffness(hinges, face) for face in range(2))
    return model(elements, 4), first * second / (first + second), hinges.weights[0]


def _own_stiffness(hinges, face):
    """That of the one inner edge of a triangle, when the shares of its two border edges are those of least energy."""
    inner = hinges.face_hinges[face] >= 0
    c = hinges.face_coupling[face]
    coupled = c[np.ix_(inner, ~inner)] @ np.linalg.solve(c[np.ix_(~inner, ~inner)], c[np.ix_(~inner, inner)])
    return (c[np.ix_(inner, inner)] - coupled).item()


hinge_shapes = st.builds(
    lambda noise, angle: (
        np.array([[0, 0, 0], [1, 0, 0], [0.4, 0, 0.8], [0.5, -np.sin(angle), -np.cos(angle)]])
        + np.array(noise).reshape(4, 3)
    ),
    st.lists(floats(-0.2, 0.2), min_size=12, max_size=12),
    floats(-2.6, 2.6),
)
BENDING = Material(stretch=1e-12, shear=0.0, bend=0.3, damping=0.0)


@settings(max_examples=60, deadline=None)
@given(hinge_shapes)
def test_the_force_of_a_hinge_is_the_slope_of_its_energy(x):
    m, k, w = hinge_model(x, BENDING)
    slope = gradient(lambda y: 0.5 * k * ((w @ y) ** 2).sum(), x).reshape(4, 3)
    assert force(m, x, np.zeros_like(x)) == pytest.approx(-slope, abs=2e-6 + 2e-3 * np.abs(slope).max())


@settings(max_examples=40, deadline=None)
@given(hinge_shapes, floats(-0.5, 0.5))
def test_a_hinge_pushes_towards_its_rest_angle(x, rest):
    """Along the mean normal, by the difference of r to that at rest."""
    m, k, w = hinge_model(x, BENDING, rest)
    n = mean_normals(x[None])[0]
    expected = -k * np.outer(w, w @ x - rest * n)
    assert force(m, x, np.zeros_like(x)) == pytest.approx(expected, abs=1e-9 + 2e-3 * np.abs(expected).max())


@settings(max_examples=40, deadline=None)
@given(hinge_shapes)
def test_the_matrix_of_a_hinge_is_its_jacobian_or_more(x):
    m, _, _ = hinge_model(x, BENDING)
    slope = gradient(lambda y: force(m, y, np.zeros_like(y)).ravel(), x)
    more = matrix(m, x, np.zeros_like(x), 1.0) + slope
    assert np.linalg.eigvalsh(0.5 * (more + more.T)).min() > -2e-3 * np.abs(slope).max()


@settings(max_examples=40, deadline=None)
@given(hinge_shapes, st.lists(floats(-1, 1), min_size=12, max_size=12))
def test_damping_of_a_hinge_takes_power_and_does_not_brake_a_turn(x, speed):
    m, _, w = hinge_model(x, BENDING.replace(damping=0.1))
    without, _, _ = hinge_model(x, BENDING)
    # the same positions at the end of the step, for which the matrix of a step is exact in the velocity
    v = np.array(speed).reshape(4, 3)
    damped = force(m, x, v) - force(without, x, v)
    assert (damped * v).sum() <= 1e-9
    n = mean_normals(x[None])[0]
    flexing = w @ np.cross([0.3, -0.2, 0.5], x) @ n
    turned = np.cross([0.3, -0.2, 0.5], x)
    brake = force(m, x, turned) - force(without, x, turned)
    assert np.abs(brake).max() <= 1e-9 + 10.0 * abs(flexing)


@settings(max_examples=30, deadline=None)
@given(hinge_shapes, st.lists(floats(-1, 1), min_size=12, max_size=12))
def test_forces_between_vertices_give_no_push_and_no_turn(x, speed):
    """Stretch, shear, bend and their damping conserve linear and angular momentum."""
    m, _, _ = hinge_model(x, Material(stretch=5.0, shear=2.0, bend=0.3, damping=0.1))
    f = force(m, 1.1 * x, np.array(speed).reshape(4, 3))
    scale = np.abs(f).sum() + 1.0
    assert np.abs(f.sum(axis=0)).max() < 1e-12 * scale
    assert np.abs(np.cross(1.1 * x, f).sum(axis=0)).max() < 1e-11 * scale


@settings(max_examples=30, deadline=None)
@given(st.lists(floats(-1, 1), min_size=18, max_size=18), floats(0, 1))
def test_stitches_pull_like_springs_without_length(numbers, w):
    x, v = np.array(numbers).reshape(2, 3, 3)
    seams = Seams(np.array([[0, 1, 2]], np.int32), np.array([w]), np.array([7.0]), np.array([0.4]))
    m = model(implicit_elements.from_seams(seams, weld=1e4), 3)
    weights = np.array([1.0, w - 1.0, -w])
    pull = -(7.0 * weights @ x + 0.4 * weights @ v)
    assert force(m, x, v) == pytest.approx(np.outer(weights, pull), abs=1e-12)
    h = 0.2
    expected = (h * h * 7.0 + h * 0.4) * np.kron(np.outer(weights, weights), np.eye(3))
    assert matrix(m, x, v, h) == pytest.approx(expected, abs=1e-12)


def test_a_weld_is_a_stiff_stitch():
    seams = Seams(np.array([[0, 1, 2]], np.int32), np.array([0.5]), np.array([np.inf]), np.array([0.1]))
    elements = implicit_elements.from_seams(seams, weld=1e4)
    assert elements.stitch_stiffness == [1e4]


def test_a_stitch_to_one_vertex_named_twice():
    seams = Seams(np.array([[0, 1, 1]], np.int32), np.array([0.3]), np.array([7.0]), np.array([0.0]))
    m = model(implicit_elements.from_seams(seams, weld=1e4), 2)
    x = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    expected = 7.0 * np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
    assert matrix(m, x, np.zeros_like(x), 1.0) == pytest.approx(expected, abs=1e-12)
    assert force(m, x, np.zeros_like(x))[:, 2] == pytest.approx([-7.0, 7.0])


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((4, 3)),
        np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [0.5, 0, -1]], float),
        np.array([[0, 0, 0], [0, 0, 0], [0.5, 0, 1], [0.5, 0, -1]], float),
        np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 1], [0.5, 0, 1]], float),
    ],
    ids=["a point", "a triangle without area", "an edge without length", "folded flat"],
)
def test_collapsed_elements_give_finite_forces_and_matrices(x):
    start = np.array([[0, 0, 0], [1, 0, 0], [0.4, 0, 0.8], [0.5, 0, -0.9]], float)
    m, _, _ = hinge_model(start, Material(stretch=5.0, shear=2.0, bend=0.3, damping=0.1))
    v = np.random.default_rng(1).normal(size=x.shape)
    assert np.isfinite(force(m, x, v)).all()
    a = matrix(m, x, v, 0.1)
    assert np.isfinite(a).all()
    assert np.linalg.eigvalsh(0.5 * (a + a.T)).min() > -1e-9


def test_a_pulled_strip_gives_the_force_of_its_material_however_fine_it_is():
    material = Material(stretch=800.0, shear=60.0)
    for cells in ((4, 2), (16, 8)):
        mesh = shapes.grid((1.0, 0.5), cells)
        m = model(implicit_elements.from_mesh(mesh, material), len(mesh.vertices))
        f = force(m, mesh.vertices * (1.01, 1.0, 1.0), np.zeros_like(mesh.vertices))
        end = mesh.vertices[:, 0] > 0.499
        assert f[end, 0].sum() == pytest.approx(-800.0 * 0.01 * 0.5)


@pytest.mark.parametrize("noise", range(4))
def test_the_force_of_a_triangle_with_directions_is_the_slope_of_its_energy(noise):
    material = Material(stretch={"warp": 3.0, "weft": 1.0, "bias": 1.2}, shear=0.7, bend=0.0, damping=0.0)
    mesh, m, x = triangle(np.random.default_rng(noise).uniform(-0.3, 0.3, 9), material)
    tensor = material.membrane()
    assert tensor[0, 1] != 0.0

    def energy(y):
        wu, wv = axes(mesh, y)
        strain = np.array([np.linalg.norm(wu) - 1.0, np.linalg.norm(wv) - 1.0, wu @ wv])
        return 0.5 * mesh.rest_areas[0] * strain @ tensor @ strain

    assert force(m, x, np.zeros_like(x)) == pytest.approx(-gradient(energy, x).reshape(3, 3), abs=1e-7)


def test_painted_factors_scale_the_stiffnesses():
    mesh = shapes.grid((1.0, 0.5), (4, 2))
    material = Material(stretch=800.0, shear=60.0, bend=1e-4)
    plain = implicit_elements.from_mesh(mesh, material)
    factors = {
        name: np.full(len(mesh.vertices), value) for name, value in (("stretch", 2.0), ("shear", 3.0), ("bend", 5.0))
    }
    painted = implicit_elements.from_mesh(mesh, material, painted=factors)
    assert painted.moduli == pytest.approx(plain.moduli * [2.0, 2.0, 2.0, 3.0])
    assert painted.hinges.face_coupling == pytest.approx(5.0 * plain.hinges.face_coupling)


def test_a_sheared_sheet_gives_the_force_of_its_material():
    mesh = shapes.grid((1.0, 0.5), (8, 4))
    m = model(implicit_elements.from_mesh(mesh, Material(stretch=800.0, shear=60.0)), len(mesh.vertices))
    slant = 1e-4
    x = mesh.vertices + slant * np.outer(mesh.vertices[:, 2], [1.0, 0.0, 0.0])
    f = force(m, x, np.zeros_like(x))
    side = mesh.vertices[:, 2] > 0.249
    assert f[side, 0].sum() == pytest.approx(-60.0 * slant * 1.0, rel=1e-3)


def test_without_threads_cloth_is_equally_stiff_in_all_directions():
    """Small strains of a triangle without uv: the energy depends on their size alone, not on their direction."""
    p = np.array([[0.1, 0.2, 0.3], [1.1, 0.4, 0.2], [0.4, 1.0, 0.9]])
    u = (p[1] - p[0]) / np.linalg.norm(p[1] - p[0])
    w = np.cross(u, np.cross(p[1] - p[0], p[2] - p[0]))
    w /= np.linalg.norm(w)
    only = TriMesh(p, np.array([[0, 1, 2]]))
    m = model(implicit_elements.from_mesh(only, Material(stretch=100.0, bend=0.0, damping=0.0)), 3)
    a = matrix(m, p, np.zeros_like(p), 1.0)
    energies = []
    for turn in np.linspace(0.0, np.pi, 7):
        along = np.cos(turn) * u + np.sin(turn) * w
        move = ((p - p[0]) @ along)[:, None] * along
        energies.append(0.5 * move.ravel() @ a @ move.ravel() / only.rest_areas[0])
    assert np.array(energies) == pytest.approx(50.0)


def test_rest_angles_come_from_a_mesh_without_a_flat_rest_shape():
    mesh = shapes.icosphere(0.5, subdivisions=1)
    m = model(implicit_elements.from_mesh(mesh, Material(bend=0.1)), len(mesh.vertices))
    assert force(m, mesh.vertices, np.zeros_like(mesh.vertices)) == pytest.approx(0.0, abs=1e-12)
    assert np.abs(force(m, 1.1 * mesh.vertices, np.zeros_like(mesh.vertices))).max() > 1.0


def test_resistance_to_wind_is_positive_and_about_the_slope_of_the_force():
    faces = np.array([[0, 1, 2]], np.int32)
    x = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
    wind = Wind(velocity=(4.0, 9.0, 1.0), drag=1.0, lift=0.5)
    seams = Seams(np.zeros((0, 3), np.int32), np.zeros(0), np.zeros(0), np.zeros(0))
    m = model(implicit_elements.from_seams(seams, weld=1.0), 3, Forces(gravity=(0, 0, 0), wind=wind), faces)
    a = matrix(m, x, np.zeros_like(x), 1.0)
    assert np.linalg.eigvalsh(a).min() > 0.0
    slope = -gradient(lambda u: force(m, x, u).ravel(), np.zeros_like(x))
    # all corners moving together along and across the normal
    for direction in np.eye(3):
        move = np.tile(direction, 3)
        assert move @ a @ move > 0.5 * (move @ slope @ move)
        assert move @ a @ move < 3.0 * (move @ slope @ move) + 1.0
