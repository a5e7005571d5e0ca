"""A skinned character for tests: a capsule with two bones that bends, walks and grows, and its own arithmetic."""

import numpy as np
from glb_writer import GlbWriter

from weft.mesh import shapes

TIMES = np.linspace(0.0, 1.0, 5)
HIP, KNEE = np.array([0.0, 0.9, 0.0]), np.array([0.0, 0.45, 0.0])


def rest_mesh():
    body = shapes.capsule(0.1, 0.9, bands=8)
    return body.with_vertices(body.vertices + (0.0, 0.55 - body.vertices[:, 1].mean(), 0.0))


def angle_at(time):
    """How far the knee is bent, radians, at a keyframe."""
    return 1.2 * np.sin(2.0 * np.pi * time)


def place_at(time):
    """Where the hip is at a keyframe."""
    return HIP + (0.5 * time, 0.05 * np.sin(6.0 * time), 0.0)


def knee_share(vertices):
    """How much each vertex follows the lower bone."""
    return np.clip((0.6 - vertices[:, 1]) / 0.3, 0.0, 1.0)


def vertices_at(time):
    """Linear blend skinning of the rest mesh at a keyframe, written out for these two bones."""
    x = rest_mesh().vertices
    share = knee_share(x)[:, None]
    a = angle_at(time)
    turn = np.array([[np.cos(a), -np.sin(a), 0.0], [np.sin(a), np.cos(a), 0.0], [0.0, 0.0, 1.0]])
    upper = x - HIP + place_at(time)
    lower = (x - KNEE) @ turn.T + (KNEE - HIP) + place_at(time)
    return (1.0 - share) * upper + share * lower


def write_character(path):
    """The character as a GLB with a skin, two joints and an animation; weights as normalised bytes and two sets."""
    mesh = rest_mesh()
    writer = GlbWriter()
    share = knee_share(mesh.vertices)
    joints = np.zeros((len(share), 4), int)
    joints[:, 1] = 1
    weights = np.zeros((len(share), 4))
    weights[:, 0], weights[:, 1] = 1.0 - share, share
    attributes = {"JOINTS_0": writer.array(joints, "u1"), "WEIGHTS_0": writer.array(weights)}
    number = writer.mesh(mesh.vertices, mesh.faces, attributes=attributes)
    knee = writer.node(root=False, name="knee", translation=(KNEE - HIP).tolist())
    hip = writer.node(name="hip", translation=HIP.tolist(), children=[knee])
    # the node of a skinned mesh may stand anywhere: the joints say where it is
    writer.node(name="body", mesh=number, skin=0, translation=[5.0, 5.0, 5.0])
    inverse = np.tile(np.eye(4), (2, 1, 1))
    inverse[0, :3, 3], inverse[1, :3, 3] = -HIP, -KNEE
    columns = inverse.transpose(0, 2, 1).reshape(2, 16)
    writer.document["skins"] = [{"joints": [hip, knee], "inverseBindMatrices": writer.array(columns)}]
    writer.animate(hip, "translation", TIMES, np.array([place_at(t) for t in TIMES]))
    half = np.array([0.5 * angle_at(t) for t in TIMES])
    writer.animate(knee, "rotation", TIMES, np.column_stack([0 * half, 0 * half, np.sin(half), np.cos(half)]))
    writer.save(path)


def write_usd_character(path, *, at=(0.0, 0.0, 0.0)):
    """The same character as a USD file with a skeleton, standing somewhere else."""
    from pxr import Gf, Usd, UsdGeom, UsdSkel, Vt

    def shift(v):
        return Gf.Matrix4d().SetTranslate(Gf.Vec3d(*map(float, v)))

    mesh, codes = rest_mesh(), 24.0
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetTimeCodesPerSecond(codes)
    root = UsdSkel.Root.Define(stage, "/character")
    UsdGeom.XformCommonAPI(root).SetTranslate(Gf.Vec3d(*at))
    skeleton = UsdSkel.Skeleton.Define(stage, "/character/bones")
    joints = ["hip", "hip/knee"]
    skeleton.CreateJointsAttr(joints)
    skeleton.CreateBindTransformsAttr([shift(HIP), shift(KNEE)])
    skeleton.CreateRestTransformsAttr([shift(HIP), shift(KNEE - HIP)])

    # poses
    poses = UsdSkel.Animation.Define(stage, "/character/poses")
    poses.CreateJointsAttr(joints)
    poses.CreateScalesAttr([Gf.Vec3h(1, 1, 1)] * 2)
    translations, rotations = poses.CreateTranslationsAttr(), poses.CreateRotationsAttr()
    for time in TIMES:
        places = np.array([place_at(time), KNEE - HIP], np.float32)
        half = 0.5 * angle_at(time)
        translations.Set(Vt.Vec3fArray.FromNumpy(places), codes * time)
        rotations.Set([Gf.Quatf(1.0), Gf.Quatf(np.cos(half), 0.0, 0.0, np.sin(half))], codes * time)
    UsdSkel.BindingAPI.Apply(skeleton.GetPrim()).CreateAnimationSourceRel().SetTargets([poses.GetPath()])

    # the skin
    body = UsdGeom.Mesh.Define(stage, "/character/body")
    body.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(mesh.vertices.astype(np.float32)))
    body.CreateFaceVertexCountsAttr([3] * len(mesh.faces))
    body.CreateFaceVertexIndicesAttr(mesh.faces.ravel().tolist())
    binding = UsdSkel.BindingAPI.Apply(body.GetPrim())
    binding.CreateSkeletonRel().SetTargets([skeleton.GetPath()])
    share = knee_share(mesh.vertices)
    weights = np.column_stack([1.0 - share, share]).astype(np.float32)
    binding.CreateJointIndicesPrimvar(False, 2).Set([0, 1] * len(share))
    binding.CreateJointWeightsPrimvar(False, 2).Set(Vt.FloatArray.FromNumpy(weights.ravel()))
    stage.GetRootLayer().Save()
