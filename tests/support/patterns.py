"""Sewing patterns made for tests: the contents of GarmentCode specifications, in centimetres."""

import copy
import json

RECTANGLE = [[0, 0], [30, 0], [30, 40], [0, 40]]


def panel(corners, *, z=0.0, edges=None, x=0.0, y=0.0):
    """A panel whose edges join the corners in turn."""
    count = len(corners)
    loop = [[i, (i + 1) % count] for i in range(count)]
    table = {"translation": [x, y, z], "rotation": [0, 0, 0], "vertices": copy.deepcopy(corners)}
    table["edges"] = edges or [{"endpoints": ends} for ends in loop]
    return table


def specification(panels, stitches=(), units=100):
    return {
        "pattern": {"panels": panels, "stitches": list(stitches)},
        "properties": {"curvature_coords": "relative", "units_in_meter": units},
    }


def stitch(one, edge, other, other_edge, *flags):
    return [{"panel": one, "edge": edge}, {"panel": other, "edge": other_edge}, *flags]


def tube(width=30.0, height=40.0, gap=15.0, y=0.0):
    """Two rectangles in front of and behind the origin, sewn along both sides: a tube without sleeves."""
    front = [[-width / 2, 0], [width / 2, 0], [width / 2, height], [-width / 2, height]]
    # the loop of the back runs the other way, so that its outside is behind
    back = [front[i] for i in (0, 3, 2, 1)]
    panels = {"front": panel(front, z=gap, y=y), "back": panel(back, z=-gap, y=y)}
    return specification(panels, [stitch("front", 1, "back", 2), stitch("front", 3, "back", 0)])


def dart():
    """A rectangle with a dart cut into its upper edge, 2 cm wide and 10 cm deep, that is sewn to itself."""
    corners = [[0, 0], [30, 0], [30, 30], [16, 30], [15, 20], [14, 30], [0, 30]]
    return specification({"back": panel(corners)}, [stitch("back", 3, "back", 4)])


def gathered():
    """An edge of 60 cm sewn to one of 20 cm."""
    panels = {"band": panel([[0, 0], [20, 0], [20, 5], [0, 5]]), "skirt": panel([[0, 0], [60, 0], [60, -30], [0, -30]])}
    return specification(panels, [stitch("band", 0, "skirt", 0, "right_wrong")])


def pleated(angle=150):
    """A panel of 32 cm with a knife pleat in its middle: of 12 cm behind each other 4 are seen, and 24 cm in all."""
    xs = [0, 10, 14, 18, 22, 32]
    corners = [[x, 40] for x in xs] + [[x, 0] for x in reversed(xs)]
    skirt = panel(corners[::-1])
    # counted from below on the left: 6 to 11 are above, from right to left
    skirt["folds"] = [{"endpoints": [3, 8], "angle": -angle}, {"endpoints": [2, 9], "angle": angle}]
    sides = [stitch("skirt", 9, "skirt", 8), stitch("skirt", 8, "skirt", 7)]
    return specification({"skirt": skirt}, sides)


def save(data, path):
    path.write_text(json.dumps(data))
    return path


def vest(width=50.0, y=0.0, gap=25.0):
    """A vest with two straps, front and back: closed by two side seams and two shoulder seams."""
    half = width / 2
    front = [[-half, 0], [half, 0], [half, 28], [17, 33], [16, 44], [7, 46], [0, 38], [-7, 46], [-16, 44], [-17, 33]]
    front.append([-half, 28])
    # the loop of the back runs the other way
    back = [front[0], *front[:0:-1]]
    panels = {"front": panel(front, z=gap, y=y), "back": panel(back, z=-gap, y=y)}
    # sides: edge 1 from corner 1 to 2, and the last edge back to corner 0; shoulders: from corner 4 to 5, and from 7 to 8
    pairs = [(1, 9), (10, 0), (4, 6), (7, 3)]
    return specification(panels, [stitch("front", i, "back", j) for i, j in pairs])
