"""Tangled meshes to untangle: sheets, cuffs, a shirt, crumples. Each comes with a shape at rest."""

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from weft.geometry.intersection import IntersectionFinder
from weft.mesh import TriMesh, shapes


class Case(NamedTuple):
    """A tangled mesh and the same one at rest."""

    vertices: np.ndarray
    faces: np.ndarray
    rest: np.ndarray


def join(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    firsts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    vertices = np.concatenate([vertices for vertices, _ in parts])
    return vertices, np.concatenate([f + first for (_, f), first in zip(parts, firsts[:-1], strict=True)]).astype(
        np.int32
    )


def smooth_noise(rng: np.random.Generator, cells: int, width: float, columns: int) -> np.ndarray:
    """Random smooth fields over the vertices of a grid, of standard deviation 1."""
    noise = rng.normal(size=(cells + 1, cells + 1, columns))
    smooth = np.stack([ndimage.gaussian_filter(noise[..., k], width, mode="nearest") for k in range(columns)], axis=-1)
    return (smooth / smooth.std()).reshape(-1, columns)


def two_sheets(crossings: int, cells: int = 30) -> Case:
    """A flat sheet and a hilly one that is lowered onto it until there are so many crossings."""
    grid = shapes.grid((1.0, 1.0), (cells, cells))
    hills = smooth_noise(np.random.default_rng(0), cells, 2.5, 1)[:, 0]
    _, faces = join((grid.vertices, grid.faces), (grid.vertices, grid.faces))
    finder = IntersectionFinder(faces)
    for height in np.linspace(4.0, 0.0, 100):
        hilly = grid.vertices + [0.0031, 0.0, 0.0017]
        hilly[:, 1] = 0.02 * (hills + height)
        vertices = np.concatenate([grid.vertices, hilly])
        if len(finder.find(vertices)) >= crossings:
            break
    return Case(vertices, faces, np.concatenate([grid.vertices, grid.vertices + [0.0, 1.0, 0.0]]))


def crossed_sheets(cells: int = 20) -> Case:
    """Two sheets that pass through one another from side to side."""
    grid = shapes.grid((1.0, 1.0), (cells, cells))
    cosine, sine = np.cos(0.9), np.sin(0.9)
    turned = grid.vertices @ np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    vertices, faces = join((grid.vertices, grid.faces), (turned + [0.3, 0.0, 0.013], grid.faces))
    return Case(vertices, faces, np.concatenate([grid.vertices, grid.vertices + [2.0, 0.0, 0.0]]))


def cuffs(seed: int) -> Case:
    """Two tubes whose open ends are stuck into one another: only boundaries cross."""
    rng = np.random.default_rng(seed)
    tube = shapes.cylinder(0.1, 0.3, segments=40, rings=20)
    angle = rng.uniform(0.0, 0.6)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = tube.vertices @ np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    turned += [0.06 + 0.05 * rng.normal(), 0.28 - 0.04 * rng.random(), 0.05 * rng.normal()]
    vertices, faces = join((tube.vertices, tube.faces), (turned, tube.faces))
    return Case(vertices, faces, np.concatenate([tube.vertices, tube.vertices + [1.0, 0.0, 0.0]]))


# a T-shirt: half width of the trunk and of the neck, its height, length and width of a sleeve
TRUNK, NECK, HEIGHT, SLEEVE, ARM = 0.25, 0.1, 0.7, 0.3, 0.2


def shirt(edge: float = 0.025) -> tuple[np.ndarray, np.ndarray]:
    """A T-shirt of a front and a back that share the vertices of their seams, a little inflated; one mesh."""
    columns, rows = round(2 * (TRUNK + SLEEVE) / edge), round(HEIGHT / edge)
    i, j = np.meshgrid(np.arange(columns), np.arange(rows), indexing="ij")
    middle = np.abs((i + 0.5) * edge - TRUNK - SLEEVE)
    inside = (middle < TRUNK) | ((j + 0.5) * edge > HEIGHT - ARM)

    # grid points of the panel, those on its border, and those of the border that are open: hem, cuffs, neck
    padded = np.pad(inside, 1)
    touching = np.stack([padded[:-1, :-1], padded[1:, :-1], padded[:-1, 1:], padded[1:, 1:]])
    used, border = touching.any(axis=0), touching.any(axis=0) & ~touching.all(axis=0)
    p, q = np.meshgrid(np.arange(columns + 1), np.arange(rows + 1), indexing="ij")
    x, y = p * edge - TRUNK - SLEEVE, q * edge
    tiny = 1e-9
    hem = (q == 0) & (np.abs(x) < TRUNK - tiny)
    cuff = ((p == 0) | (p == columns)) & (y > HEIGHT - ARM + tiny) & (y < HEIGHT - tiny)
    neck = (q == rows) & (np.abs(x) < NECK)
    seam = border & ~(hem | cuff | neck)

    # the farther from a seam, the farther front and back are apart
    flat = np.stack([x, y], axis=-1)
    away = np.linalg.norm(flat[:, :, None] - flat[seam], axis=3).min(axis=2)
    bulge = 0.6 * np.sqrt(0.1 * away)
    front = np.full(used.shape, -1)
    front[used] = np.arange(used.sum())
    back = front.copy()
    twin = used & ~seam
    back[twin] = used.sum() + np.arange(twin.sum())
    vertices = np.concatenate([np.column_stack([flat[used], bulge[used]]), np.column_stack([flat[twin], -bulge[twin]])])

    faces = []
    for side, ids in enumerate((front, back)):
        a, b, c, d = ids[:-1, :-1][inside], ids[1:, :-1][inside], ids[:-1, 1:][inside], ids[1:, 1:][inside]
        odd = ((i + j) % 2)[inside][:, None] == 1
        first = np.where(odd, np.column_stack([a, b, d]), np.column_stack([a, b, c]))
        second = np.where(odd, np.column_stack([a, d, c]), np.column_stack([b, d, c]))
        both = np.concatenate([first, second])
        faces.append(both[:, ::-1] if side else both)
    faces = np.concatenate(faces)
    # a triangle whose corners all lie on a seam is there twice: leave both out
    _, which, count = np.unique(np.sort(faces, axis=1), axis=0, return_inverse=True, return_counts=True)
    faces = faces[count[which.ravel()] == 1]
    kept = np.unique(faces)
    number = np.full(len(vertices), -1)
    number[kept] = np.arange(len(kept))
    mesh = TriMesh(vertices[kept], number[faces])
    return np.array(mesh.vertices), np.array(mesh.faces)


def shirt_with_sleeve_inside(angle: float, edge: float = 0.025) -> Case:
    """One sleeve of the shirt bent down into the trunk."""
    rest, faces = shirt(edge)
    turn = -angle * np.clip((rest[:, 0] - 0.22) / 0.12, 0.0, 1.0)
    x, y = rest[:, 0] - 0.22, rest[:, 1] - 0.6
    vertices = rest.copy()
    vertices[:, 0] = 0.22 + np.cos(turn) * x - np.sin(turn) * y
    vertices[:, 1] = 0.6 + np.sin(turn) * x + np.cos(turn) * y
    return Case(vertices, faces, rest)


def crumpled(seed: int, cells: int = 50, low: int = 200, high: int = 2000) -> Case:
    """A sheet moved by smooth random vectors, so strongly that it has between `low` and `high` crossings."""
    rng = np.random.default_rng(seed)
    grid = shapes.grid((1.0, 1.0), (cells, cells))
    wanted = np.exp(rng.uniform(np.log(1.1 * low), np.log(0.9 * high)))
    way = smooth_noise(rng, cells, 3.0, 3)
    finder = IntersectionFinder(grid.faces)
    weak, strong = 0.0, 0.5
    for _ in range(16):
        middle = 0.5 * (weak + strong)
        found = len(finder.find(grid.vertices + middle * way))
        weak, strong = (middle, strong) if found < wanted else (weak, middle)
    return Case(grid.vertices + strong * way, np.array(grid.faces), np.array(grid.vertices))


def squeezed(seed: int, cells: int = 50, low: int = 200, high: int = 2000) -> Case:
    """A sheet pressed together from all sides through itself; its edges keep their lengths, as those of cloth do."""
    rng = np.random.default_rng(seed)
    grid = shapes.grid((1.0, 1.0), (cells, cells))
    wanted = np.exp(rng.uniform(np.log(1.1 * low), np.log(0.9 * high)))
    opposite = grid.hinges[:, 2:]
    springs = np.concatenate([grid.edges, opposite])
    lengths = np.linalg.norm(grid.vertices[springs[:, 1]] - grid.vertices[springs[:, 0]], axis=1)
    stiffness = np.repeat([1.0, 0.1], [len(grid.edges), len(opposite)])
    share = 1.6 / np.bincount(springs.ravel())[:, None]
    bumps = smooth_noise(rng, cells, 0.08 * cells, 3)
    finder = IntersectionFinder(grid.faces)
    x = grid.vertices + 0.05 * bumps
    a, b = springs.T
    for _ in range(300):
        x = 0.99 * x + 0.004 * rng.normal(size=3) * bumps
        for _ in range(20):
            way = x[b] - x[a]
            length = np.maximum(np.linalg.norm(way, axis=1), 1e-12)
            pull = (0.5 * stiffness * (length - lengths) / length)[:, None] * way
            moved = [np.bincount(a, p, len(x)) - np.bincount(b, p, len(x)) for p in pull.T]
            x = x + share * np.column_stack(moved)
        if len(finder.find(x)) >= wanted:
            break
    return Case(x, np.array(grid.faces), np.array(grid.vertices))


def figure_eight_knot(count: int) -> np.ndarray:
    """Points of a closed curve around a ring: the knot 4_1, with four crossings seen from above."""
    t = 2.0 * np.pi * np.arange(count) / count
    out = 2.0 + np.cos(2.0 * t)
    return np.column_stack([out * np.cos(3.0 * t), out * np.sin(3.0 * t), np.sin(4.0 * t)])


def knot_8_18(count: int) -> np.ndarray:
    """Points of the closed braid of three strands that cross over and under in turn, eight times."""
    t = 6.0 * np.pi * np.arange(count) / count
    out = 2.0 + 0.9 * np.cos(8.0 / 3.0 * t)
    return np.column_stack([out * np.cos(t), out * np.sin(t), np.sin(16.0 / 3.0 * t)])


def flattened_tube(curve: np.ndarray, radius: float, flat: float, sides: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A tube along a closed curve whose heights are this fraction of what they were, so that it passes through itself."""
    centre = curve * [1.0, 1.0, flat]
    along = np.roll(centre, -1, axis=0) - np.roll(centre, 1, axis=0)
    along /= np.linalg.norm(along, axis=1)[:, None]
    # the curves run around the axis z, so that their directions are never along it
    one = np.array([0.0, 0.0, 1.0]) - along[:, 2:] * along
    one /= np.linalg.norm(one, axis=1)[:, None]
    other = np.cross(along, one)
    angle = 2.0 * np.pi * np.arange(sides) / sides
    ring = np.cos(angle)[:, None] * one[:, None] + np.sin(angle)[:, None] * other[:, None]
    i, j = np.meshgrid(np.arange(len(curve)), np.arange(sides), indexing="ij")
    a, b = i * sides + j, (i + 1) % len(curve) * sides + j
    c, d = i * sides + (j + 1) % sides, (i + 1) % len(curve) * sides + (j + 1) % sides
    faces = np.concatenate([np.stack([a, b, c], axis=-1), np.stack([c, b, d], axis=-1)]).reshape(-1, 3)
    return (centre[:, None] + radius * ring).reshape(-1, 3), faces.astype(np.int32)
