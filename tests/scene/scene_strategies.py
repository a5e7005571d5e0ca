"""Random scenes that are valid, for properties that hold of all of them."""

import numpy as np
from hypothesis import strategies as st

import weft
from weft.scene.model import SceneModel

numbers = st.floats(-1e3, 1e3, allow_nan=False)
positive = st.floats(1e-6, 1e3)
not_negative = st.floats(0.0, 1e3)
vectors = st.tuples(numbers, numbers, numbers)
counts = st.integers(1, 12)
names = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1, max_size=8).filter(
    lambda s: bool(s.strip()) and s.isprintable()
)
files = st.sampled_from(["mesh.obj", "data/body.npz", 'ä ö/"quoted".ply', "../up.glb", "/root/absolute.usd"])


def all_parts():
    """Every class that a scene can hold."""
    found, todo = set(), [SceneModel]
    while todo:
        for part in todo.pop().__subclasses__():
            todo.append(part)
            if part.__module__.startswith("weft.") and not part.__name__.endswith(("Model", "Options", "Selection")):
                found.add(part)
    return found


def sometimes(part):
    """A value, or the default."""
    return st.one_of(st.none(), part)


def make(kind, **fields):
    """A part with some of its fields given and the others left out (a None)."""
    given_fields = {name: sometimes(strategy) for name, strategy in fields.items()}
    return st.fixed_dictionaries(given_fields).map(
        lambda table: kind(**{name: value for name, value in table.items() if value is not None})
    )


placements = make(
    weft.Placement,
    position=vectors,
    rotation_deg=vectors,
    scale=st.one_of(positive, st.tuples(positive, positive, positive)),
)
sheets = st.one_of(
    make(
        weft.Grid,
        size=st.tuples(positive, positive),
        cells=st.tuples(counts, counts),
        diagonals=st.sampled_from(["same", "alternating"]),
    ),
    make(weft.Strip, length=positive, width=positive, cells=st.tuples(counts, counts)),
)
solids = st.one_of(
    make(weft.Sphere, radius=positive, triangles=st.sampled_from(["uv", "icosphere"]), subdivisions=st.integers(0, 3)),
    make(weft.Capsule, radius=positive, length=positive, segments=st.integers(3, 9)),
    make(weft.Box, size=st.tuples(positive, positive, positive), cells=st.tuples(counts, counts, counts)),
    make(weft.Cylinder, radius=positive, height=positive, rings=counts),
    make(weft.Plane, size=st.tuples(positive, positive)),
)


@st.composite
def materials(draw):
    static = draw(sometimes(not_negative))
    table = {
        "preset": draw(st.sampled_from(["cotton", "silk", "denim", "wool", "leather", "chiffon", "linen"])),
        "density": draw(sometimes(st.floats(1e-7, 1e4))),
        "bend": draw(sometimes(not_negative)),
        "thickness": draw(sometimes(positive)),
        "friction": static,
        "friction_kinetic": draw(sometimes(st.floats(0.0, static))) if static is not None else None,
    }
    return weft.Material(**{name: value for name, value in table.items() if value is not None})


@st.composite
def paths(draw):
    times = sorted(draw(st.sets(numbers, min_size=1, max_size=4)))
    frames = [
        weft.Keyframe(time=t, position=draw(vectors), rotation_deg=draw(st.just((0.0, 0.0, 0.0)) | vectors))
        for t in times
    ]
    return weft.Path(keyframes=frames, interpolation=draw(st.sampled_from(["linear", "smooth"])))


motions = st.one_of(
    st.just(weft.Still()),
    make(
        weft.Spin,
        axis=vectors.filter(any),
        rate_deg=numbers,
        centre=vectors,
        start=st.floats(0, 1),
        stop=st.floats(1, 9),
    ),
    paths(),
)
sequences = st.builds(weft.Sequence, file=files, fps=sometimes(positive), array=sometimes(names))
bounds = st.one_of(numbers, st.sampled_from([np.inf, -np.inf]))


@st.composite
def pins(draw):
    choice = draw(st.integers(0, 2))
    where = {}
    if choice == 0:
        where["indices"] = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
    elif choice == 1:
        corners = [sorted((draw(bounds), draw(bounds))) for _ in range(3)]
        where["box"] = tuple(zip(*corners, strict=True))
    else:
        where["boundary"] = draw(st.sampled_from(["left", "top", "corners", "bottom_right", "all"]))
    until = draw(sometimes(positive))
    return weft.Pin(motion=draw(st.one_of(motions, sequences)), until=until, **where)


@st.composite
def cloths(draw, name):
    table = {
        "name": name,
        "placement": draw(placements),
        "material": draw(st.one_of(materials(), st.sampled_from(["silk", "leather"]))),
        "velocity": draw(vectors),
        "pins": draw(st.lists(pins(), max_size=3)),
        "colour": draw(sometimes(st.just("#12abEF"))),
        "masses": draw(sometimes(st.sampled_from(["equal", "area"]))),
    }
    if draw(st.booleans()):
        return weft.Cloth(**table, shape=draw(sheets))
    return weft.Cloth(
        **table, mesh=draw(files), array=draw(sometimes(names)), rest=draw(sometimes(st.sampled_from(["mesh", "uv"])))
    )


@st.composite
def colliders(draw, name):
    static = draw(sometimes(not_negative))
    table = {"name": name, "placement": draw(placements), "colour": draw(sometimes(st.just("#000000")))}
    if static is not None:
        table["friction"] = static
        if draw(st.booleans()):
            table["friction_kinetic"] = draw(st.floats(0.0, static))
    source = draw(st.integers(0, 2))
    if source == 0:
        return weft.Collider(**table, shape=draw(solids), motion=draw(motions))
    if source == 1:
        return weft.Collider(
            **table, mesh=draw(files), motion=draw(st.one_of(motions, sequences)), repair=draw(st.booleans())
        )
    return weft.Collider(**table, motion=draw(sequences))


@st.composite
def seams(draw, cloth_names):
    table = {"cloth": draw(st.sampled_from(cloth_names)), "to": draw(sometimes(st.sampled_from(cloth_names)))}
    if draw(st.booleans()):
        return weft.Seam(**table, file=draw(files), kind=draw(st.sampled_from(["spring", "weld"])))
    stitches = draw(st.lists(st.tuples(*[st.integers(0, 99)] * 3), min_size=1, max_size=30))
    weights = draw(sometimes(st.lists(st.floats(0, 1), min_size=len(stitches), max_size=len(stitches))))
    return weft.Seam(**table, vertices=stitches, weights=weights, stiffness=draw(sometimes(positive)))


winds = st.builds(
    weft.Wind,
    velocity=vectors,
    gust=st.floats(0, 1),
    gust_period=positive,
    drag=not_negative,
    seed=sometimes(st.integers(0, 2**63 - 1)),
)


@st.composite
def scenes(draw):
    body_names = draw(st.lists(names, max_size=4, unique=True))
    cut = draw(st.integers(0, len(body_names)))
    cloth_names = body_names[:cut]
    return weft.Scene(
        name=draw(names),
        fps=draw(st.floats(1e-3, 1e7)),
        frames=draw(st.integers(1, 10**6)),
        device=draw(st.sampled_from(["cpu", "cuda", "cuda:3"])),
        method=draw(st.sampled_from(["plain", {"name": "plain"}])),
        seed=draw(st.integers(0, 2**63 - 1)),
        thickness=draw(positive),
        check=draw(st.integers(0, 9)),
        forces=weft.Forces(
            gravity=draw(vectors),
            wind=draw(sometimes(winds)),
            air_damping=draw(not_negative),
        ),
        camera=draw(make(weft.Camera, position=vectors, target=vectors, fov_deg=st.floats(1, 179))),
        cloths=[draw(cloths(name)) for name in cloth_names],
        colliders=[draw(colliders(name)) for name in body_names[cut:]],
        seams=draw(st.lists(seams(cloth_names), max_size=2)) if cloth_names else [],
    )
