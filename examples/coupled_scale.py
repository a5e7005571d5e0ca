"""A spring scale in MuJoCo weighs a cloth in weft: forces and torques go out, poses come in, step by step.

The plate of the scale is a rigid body of MuJoCo on a slide with a spring, and a collider in weft. Each step MuJoCo moves the
plate under the force of the cloth's contacts, and weft moves the cloth on the plate. At rest the spring is shorter by the
weight of the cloth over its stiffness. `python examples/coupled_scale.py`; needs `pip install mujoco`.
"""

import mujoco
import numpy as np
from common import expect

import weft

# N/m and N s/m of the spring, kg of the plate; the plate is heavier than the cloth, or the coupling, which answers to the force
# of the step before, would shake
STIFFNESS, DAMPING, PLATE_MASS = 20.0, 2.0, 0.05
GRAVITY = 9.81

MODEL = """
<mujoco>
  <option timestep="{dt}" gravity="0 -{gravity} 0" integrator="implicitfast"/>
  <worldbody>
    <body name="plate">
      <joint type="slide" axis="0 1 0" stiffness="{stiffness}" damping="{damping}" springref="{rest}"/>
      <geom type="box" size="0.2 0.01 0.2" mass="{mass}"/>
    </body>
  </worldbody>
</mujoco>
"""


def scene() -> weft.Scene:
    """A sheet of cotton above the plate."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.3, 0.3), cells=(12, 12)),
        placement=weft.Placement(position=(0.0, 0.04, 0.0)),
    )
    plate = weft.Collider(name="plate", shape=weft.Box(size=(0.4, 0.02, 0.4)))
    return weft.Scene(name="scale", method="robust", thickness=0.003, cloths=[sheet], colliders=[plate])


def weigh(seconds: float) -> tuple[float, float]:
    """How far the scale goes down, and how far theory says, m."""
    sim = weft.Simulation(scene())
    rest = PLATE_MASS * GRAVITY / STIFFNESS
    settings = {"stiffness": STIFFNESS, "damping": DAMPING, "mass": PLATE_MASS, "rest": rest}
    model = mujoco.MjModel.from_xml_string(MODEL.format(dt=sim.dt, gravity=GRAVITY, **settings))
    data = mujoco.MjData(model)
    plate = model.body("plate").id
    for _ in range(round(seconds / sim.dt)):
        # MuJoCo moves the plate, under the force of the last step
        mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)
        # pose in
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = data.xmat[plate].reshape(3, 3), data.xpos[plate]
        sim.bodies["plate"].pose = pose
        sim.step()
        # force and torque out
        found = sim.contact_forces("plate", about=data.xipos[plate])
        data.xfrc_applied[plate] = [*found.force, *found.torque]
    mass = sim.world.mass[: sim.world.cloth_vertex_count].sum()
    return -float(data.qpos[0]), float(mass * GRAVITY / STIFFNESS)


def main() -> None:
    """Weigh, and compare with theory."""
    measured, theory = weigh(2.0)
    expect(f"the scale shows {measured / theory:.4f} of the weight", abs(measured / theory - 1.0) < 1e-3)
    print(f"the scale goes down by {1e3 * measured:.4f} mm, by theory {1e3 * theory:.4f} mm")


if __name__ == "__main__":
    main()
