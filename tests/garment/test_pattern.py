"""Reading sewing patterns: curves, placements, seams, and one message for each mistake."""

import json
import math

import numpy as np
import pytest
from patterns import RECTANGLE, panel, save, specification, stitch, tube

import weft
from weft.garment.curves import arc, bezier, line
from weft.garment.pattern import PatternError
from weft.garment.reading import read_pattern


def test_curves_are_divided_into_equal_lengths():
    start, end = np.array([0.0, 0.0]), np.array([2.0, 0.0])
    for curve in (
        line(start, end),
        bezier(start, end, np.array([[0.3, 0.4]])),
        bezier(start, end, np.array([[0.1, 0.5], [0.7, -0.3]])),
        arc(start, end, 1.5, True, False),
    ):
        points = curve.divided(10)
        steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
        assert np.array_equal(points[0], start) and np.array_equal(points[-1], end)
        # chords of a curve are a little shorter than its pieces
        assert steps.sum() <= curve.length + 1e-12 and np.ptp(steps) < 0.05 * steps.mean()


def test_control_points_are_relative_to_the_edge():
    curve = bezier(np.array([1.0, 1.0]), np.array([1.0, 3.0]), np.array([[0.5, 0.25]]))
    # half way up, and a quarter of the length to the left, which is -x here
    assert np.allclose(curve.control[1], [0.5, 2.0])


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_arcs_lie_on_their_circle(large, right):
    start, end = np.array([0.0, 0.0]), np.array([1.0, 0.0])
    curve = arc(start, end, 0.8, large, right)
    points = curve.divided(50)
    assert np.allclose(np.linalg.norm(points - np.array(curve.centre), axis=1), 0.8)
    angle = 2 * math.asin(0.5 / 0.8)
    assert curve.length == pytest.approx(0.8 * (2 * math.pi - angle if large else angle), rel=1e-4)
    # to the right of the way from start to end is below
    assert (points[25, 1] < 0) == right


def test_a_pattern_is_read_in_metres():
    data = specification({"front": {**panel(RECTANGLE), "translation": [10, 20, 30], "rotation": [0, 90, 0]}})
    pattern = read_pattern(data)
    front = pattern.panel("front")
    assert front.area == pytest.approx(0.12)
    # turned by 90 degrees about y, x points backwards
    assert np.allclose(front.placed(np.array([[0.3, 0.4]])), [[0.1, 0.6, 0.0]])


def test_older_files_write_a_quadratic_curve_as_its_control_point():
    edges = [{"endpoints": [i, (i + 1) % 4]} for i in range(4)]
    edges[0]["curvature"] = [0.5, -0.2]
    old = read_pattern(specification({"front": panel(RECTANGLE, edges=edges)}))
    edges[0]["curvature"] = {"type": "quadratic", "params": [[0.5, -0.2]]}
    new = read_pattern(specification({"front": panel(RECTANGLE, edges=edges)}))
    assert old.panels[0].area == new.panels[0].area > 0.12


def test_load_pattern_takes_its_name_from_the_file(tmp_path):
    pattern = weft.load_pattern(save(tube(), tmp_path / "vest_specification.json"))
    assert pattern.name == "vest" and len(pattern.seams) == 2 and not pattern.seams[0].same_way


def with_curve(**curvature):
    edges = [{"endpoints": [i, (i + 1) % 4]} for i in range(4)]
    edges[2]["curvature"] = curvature
    return specification({"front": panel(RECTANGLE, edges=edges)})


two = {"front": panel(RECTANGLE), "back": panel(RECTANGLE)}


def with_folds(*ends, angle=90):
    folds = [{"endpoints": list(pair), "angle": angle} for pair in ends]
    return specification({"front": {**panel(RECTANGLE), "folds": folds}})


BAD = {
    "a stitch to a missing panel": (
        specification(two, [stitch("front", 0, "bck", 1)]),
        "stitch 0 sews edge 1 of panel 'bck', which the pattern does not have; did you mean 'back'?",
    ),
    "a stitch to a list of panels": (
        specification(two, [stitch(["front"], 0, "back", 1)]),
        "stitch 0 sews edge 0 of panel ['front'], which the pattern does not have",
    ),
    "a stitch to an edge that is no number": (
        specification(two, [stitch("front", True, "back", 1)]),
        "stitch 0 sews edge True of panel 'front', which has the edges 0 to 3",
    ),
    "a stitch to a missing edge": (
        specification(two, [stitch("front", 7, "back", 1)]),
        "stitch 0 sews edge 7 of panel 'front', which has the edges 0 to 3",
    ),
    "a stitch to itself": (specification(two, [stitch("front", 1, "front", 1)]), "edge 1 of panel 'front' to itself"),
    "one side": (specification(two, [[{"panel": "front", "edge": 0}]]), "stitch 0 must have two sides"),
    "edges that cross": (
        specification({"front": panel([[0, 0], [30, 40], [30, 0], [0, 30]])}),
        "panel 'front': edges 0 and 2 cross",
    ),
    "an edge that crosses itself": (
        with_curve(type="cubic", params=[[1.9, 1.0], [-0.9, 1.0]]),
        "panel 'front': edge 2 crosses itself",
    ),
    "no area": (specification({"front": panel([[0, 0], [30, 0], [10, 0]])}), "panel 'front' has no area"),
    "no length": (
        specification({"front": panel([[0, 0], [30, 0], [30, 0], [0, 40]])}),
        "panel 'front': edge 1 has no length",
    ),
    "too large": (
        specification(two, units=1),
        "is 50 m long: no garment is. properties.units_in_meter = 1 is probably wrong; is it 100?",
    ),
    "too small": (specification(two, units=10000), "units_in_meter = 10000 is probably wrong; is it 100?"),
    "no loop": (
        specification({"front": panel(RECTANGLE, edges=[{"endpoints": [0, 1]}, {"endpoints": [2, 3]}])}),
        "panel 'front': edge 0 ends at vertex 1 and edge 1 starts at vertex 2",
    ),
    "no such vertex": (
        specification({"front": panel(RECTANGLE, edges=[{"endpoints": [0, 9]}])}),
        "panel 'front': edge 0: there is no vertex 9",
    ),
    "no panels": (specification({}), "the pattern has no panels"),
    "not a number": (specification({"front": panel([[0, "x"], [1, 1], [2, 0]])}), "vertices must be a number, not 'x'"),
    "not finite": (specification({"f": panel([[0, math.nan], [1, 1], [2, 0]])}), "vertices must be a number, not nan"),
    "a circle too small": (
        with_curve(type="circle", params=[5, 0, 0]),
        "a circle of radius 0.05 m does not reach over 0.3 m",
    ),
    "an unknown curve": (with_curve(type="spline", params=[]), "edge 2: curvature.type = 'spline' is unknown"),
    "too few control points": (with_curve(type="cubic", params=[[0, 1]]), "a cubic curve has 2 control points, not 1"),
    "units of nothing": (specification(two, units=0), "units_in_meter must be more than 0"),
    "a fold to nowhere": (with_folds([0, 7]), "panel 'front': fold 0: there is no vertex 7"),
    "a fold along an edge": (with_folds([1, 2]), "panel 'front': fold 0 runs along an edge"),
    "folds that cross": (with_folds([0, 2], [1, 3]), "panel 'front': fold 1 crosses fold 0"),
    "a fold without length": (with_folds([1, 1]), "panel 'front': fold 0 has no length"),
    "a fold too far": (with_folds([0, 2], angle=200), "fold 0: angle must be between -180 and 180 degrees, not 200"),
    "a fold outside": (
        specification(
            {"v": {**panel([[0, 0], [20, 10], [40, 0], [20, 40]]), "folds": [{"endpoints": [0, 2], "angle": 9}]}}
        ),
        "panel 'v': fold 0 leaves the panel",
    ),
    "another file": ({"scene": 1}, "pattern must be a table of a GarmentCode specification, and is missing"),
    "a list": ([1, 2], "the file must be a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_message(name, tmp_path):
    data, message = BAD[name]
    path = save(data, tmp_path / "bad.json")
    with pytest.raises(PatternError) as caught:
        weft.load_pattern(path)
    text = str(caught.value)
    assert message in text and text.startswith(str(path)) and "\n" not in text


def test_a_skirt_whose_halves_are_sewn_to_the_wrong_sides():
    """The left half of the waist is sewn to the right half of a bodice: all corners of the waist become one point."""
    halves = {
        "left": panel([[0, 50], [20, 50], [20, 80], [0, 80]]),
        "right": panel([[-20, 50], [0, 50], [0, 80], [-20, 80]]),
    }
    skirt = {"skirt": panel([[-20, 0], [20, 0], [20, 45], [0, 45], [-20, 45]])}
    middle = stitch("left", 3, "right", 1)
    good = specification(halves | skirt, [middle, stitch("left", 0, "skirt", 2), stitch("right", 0, "skirt", 3)])
    read_pattern(good)
    back = {"back": panel([[-20, 0], [-20, 45], [20, 45], [20, 0]], z=-20)}
    sides = [stitch("skirt", 1, "back", 2), stitch("skirt", 4, "back", 0)]
    bad = specification(
        halves | skirt | back, [middle, *sides, stitch("left", 0, "skirt", 3), stitch("right", 0, "skirt", 2)]
    )
    # both sides of the skirt end in the middle of the bodice
    with pytest.raises(PatternError, match="the seams join both ends of edge 1 of panel 'back' with each other"):
        read_pattern(bad)


@pytest.mark.parametrize(("content", "message"), [(b"{", "it is no JSON file"), (b"\xff\xfe", "cannot be read")])
def test_a_file_that_is_no_json(content, message, tmp_path):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(PatternError, match=message):
        weft.load_pattern(tmp_path / "bad.json")


def test_a_missing_file():
    with pytest.raises(PatternError, match=r"nowhere\.json: no such file"):
        weft.load_pattern("nowhere.json")


def test_deep_nesting_is_refused(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(PatternError, match="no JSON file"):
        weft.load_pattern(tmp_path / "deep.json")


def test_the_examples_of_tests_are_valid():
    for data in (tube(), json.loads(json.dumps(tube(width=60)))):
        assert len(read_pattern(data).panels) == 2
