"""The report of a fit as JSON, and pictures of the dressed body: as it is, its strain, the pressure on the body."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.dressing.dresser import Dressed
from weft.errors import writing

Floats = NDArray[np.float64]

# per cent and Pa: ends of the scales in pictures; underwear presses with 500 to 2000 Pa
STRAIN_SCALE, PRESSURE_SCALE = 10.0, 1000.0
# pixels, and from where the body is seen: from the front, obliquely and from behind
SIZE = (1500, 1000)
DIRECTIONS = ((0.0, 1.0), (0.85, 0.55), (0.0, -1.0))


def write_report(dressed: Dressed, path: Path) -> None:
    """Write how the garments fit, and whether anything crosses."""
    report = {
        "crossings": {"cloth": dressed.crossings.cloth, "body": dressed.crossings.body},
        "remarks": list(dressed.remarks),
        "garments": [
            {
                "name": fit.name,
                "largest_pressure_pa": round(float(fit.pressure.max()), 1),
                "panels": {
                    panel.name: {
                        "mean_strain_percent": round(panel.mean, 2),
                        "strain_percent_95": round(panel.most, 2),
                        "largest_strain_percent": round(panel.largest, 2),
                    }
                    for panel in fit.panels
                },
            }
            for fit in dressed.fits
        ],
    }
    with writing(path):
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def draw_fit(dressed: Dressed, folder: Path) -> list[Path]:
    """Draw the dressed body from three sides, coloured by garment, by strain and by pressure."""
    paths = [folder / f"{name}.png" for name in ("dressed", "strain", "pressure")]
    for path in paths:
        _draw(dressed, path)
    return paths


def _draw(dressed: Dressed, path: Path) -> None:
    from weft.view.stage import import_pyvista

    pyvista = import_pyvista()
    plotter = pyvista.Plotter(off_screen=True, shape=(1, 3), window_size=SIZE, border=False)
    points = np.concatenate([garment.vertices for garment in dressed.garments])
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    width, height, _ = np.ptp(points, axis=0).tolist()
    # an angle of 35 degrees over the height, and half of that over the width of each of the three pictures
    distance = max(1.7 * height, 3.3 * width) + 0.3
    for column, (right, front) in enumerate(DIRECTIONS):
        plotter.subplot(0, column)
        _add_meshes(pyvista, plotter, dressed, path.stem, legend=column == 1)
        eye = middle + distance * np.array([right, 0.1, front])
        plotter.camera_position = [tuple(eye), tuple(middle), (0.0, 1.0, 0.0)]
        plotter.camera.view_angle = 35.0
    with writing(path):
        plotter.screenshot(str(path))
    plotter.close()


def _add_meshes(pyvista: Any, plotter: Any, dressed: Dressed, what: str, *, legend: bool) -> None:
    """The body and all garments, welded, in the colours of one picture."""
    from weft.scene.colours import CLOTH_PALETTE, from_lch

    bar = {
        "title": {"strain": "strain, per cent", "pressure": "pressure, Pa"}.get(what, ""),
        "color": "black",
        "fmt": "%.0f",
    }
    show = {"show_scalar_bar": legend, "scalar_bar_args": bar}
    body = _surface(pyvista, dressed.body.vertices, dressed.body.faces)
    if what == "pressure":
        body["pressure"] = np.max([fit.pressure for fit in dressed.fits], axis=0)
        plotter.add_mesh(
            body, scalars="pressure", clim=(0.0, PRESSURE_SCALE), cmap="magma_r", smooth_shading=True, **show
        )
        return
    plotter.add_mesh(body, color="#c9b8a8", smooth_shading=True)
    for number, (garment, fit) in enumerate(zip(dressed.garments, dressed.fits, strict=True)):
        surface = _surface(pyvista, garment.welded_mean(garment.vertices), garment.welded_faces)
        if what == "strain":
            surface["strain"] = garment.welded_mean(fit.strain[:, None])[:, 0]
            limits = (-STRAIN_SCALE, STRAIN_SCALE)
            plotter.add_mesh(surface, scalars="strain", clim=limits, cmap="RdBu_r", **show)
        else:
            colour = CLOTH_PALETTE[number % len(CLOTH_PALETTE)]
            plotter.add_mesh(surface, color=tuple(from_lch(*colour)), smooth_shading=True)


def _surface(pyvista: Any, vertices: Floats, faces: NDArray[np.int32]) -> Any:
    return pyvista.PolyData(vertices, np.column_stack([np.full(len(faces), 3), faces]).ravel())
