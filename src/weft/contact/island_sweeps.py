"""Sweeps over clumps of contacts (see `weft.contact.contact_islands`).

A block has the vertices of some clumps in the memory that its threads share, and each thread a contact. A thread of a CPU is a
block by itself.
"""

import warp as wp

from weft.contact.contact_islands import GROUPS, MOST_CONTACTS, MOST_VERTICES
from weft.contact.friction import impulse_of
from weft.contact.packed_stencils import slid_from
from weft.contact.project_contact import parting
from weft.runtime.cooperative import block_barrier, block_size
from weft.runtime.shared_memory import meet_first, put_on, shelf, take_off
from weft.runtime.vector_loads import load_vec2d, load_vec4d, load_vec4i, store_place

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.func
def place_vertices(thread: int, group: int, span: int, members: wp.array[int], p: wp.array[wp.vec4d], room: wp.uint64):
    """Put the vertices of a group, which are rows, on the shelf."""
    for k in range(thread, span, block_size()):
        row = load_vec4d(p, members[MOST_VERTICES * group + k])
        put_on(room, k, wp.vec3d(row[0], row[1], row[2]))


@wp.func
def return_vertices(thread: int, group: int, span: int, members: wp.array[int], p: wp.array[wp.vec4d], room: wp.uint64):
    """Take them back to their rows."""
    for k in range(thread, span, block_size()):
        store_place(p, members[MOST_VERTICES * group + k], take_off(room, k))


@wp.func
def corner_at(slot: int, room: wp.uint64) -> wp.vec3d:
    """A vertex on the shelf; nothing where it is not there, since it cannot move."""
    found = wp.vec3d()
    if slot >= 0:
        found = take_off(room, slot)
    return found


@wp.func
def held_corners(q: wp.vec4i, w: wp.vec4d, corners: wp.vec4i, p: wp.array[wp.vec4d]) -> wp.vec3d:
    """What the corners that cannot move add to the relative position or velocity of a pair."""
    held = wp.vec3d()
    for k in range(4):
        if corners[k] < 0:
            row = load_vec4d(p, q[k])
            held += w[k] * wp.vec3d(row[0], row[1], row[2])
    return held


@wp.func
def part_clumps(
    t: int,
    threads: int,
    sizes: wp.array[int],
    spans: wp.array[int],
    contacts: wp.array[int],
    contact_colours: wp.array[int],
    corners: wp.array[wp.vec4i],
    members: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """All clumps in a substep, each by one block."""
    room = shelf()
    block = block_size()
    thread = t % block
    for group in range(t // block, GROUPS, threads // block):
        size = sizes[group]
        span = spans[group]
        place_vertices(thread, group, span, members, p, room)
        for begin in range(MOST_CONTACTS * group, MOST_CONTACTS * group + size, block):
            # a contact for each thread; who has none has that of the first
            count = wp.min(block, MOST_CONTACTS * group + size - begin)
            place = begin + wp.where(thread < count, thread, 0)
            mine = contact_colours[place]
            low = contact_colours[begin]
            high = contact_colours[begin + count - 1]
            corner = load_vec4i(corners, place)
            i = contacts[place]
            q = load_vec4i(vertices, i)
            w = load_vec4d(weights, i)
            n = normals[i]
            distance = distances[i]
            g = load_vec4d(gains, i)
            mu = load_vec2d(friction, i)
            was = slid_from(q, w, gaps[i], distance, before)
            held = held_corners(q, w, corner, p)
            block_barrier(1)
            busy = (count + 31) // 32 * 32
            if thread < busy:
                for colour in range(low, high + 1):
                    if colour == mine and thread < count:
                        a = corner_at(corner[0], room)
                        b = corner_at(corner[1], room)
                        c = corner_at(corner[2], room)
                        d = corner_at(corner[3], room)
                        r = held + w[0] * a + w[1] * b + w[2] * c + w[3] * d
                        lack = distance - wp.dot(n, r)
                        if lack > ZERO:
                            shift = parting(lack, n, r, was, mu)
                            if corner[0] >= 0:
                                put_on(room, corner[0], a + g[0] * shift)
                            if corner[1] >= 0:
                                put_on(room, corner[1], b + g[1] * shift)
                            if corner[2] >= 0:
                                put_on(room, corner[2], c + g[2] * shift)
                            if corner[3] >= 0:
                                put_on(room, corner[3], d + g[3] * shift)
                    meet_first(busy)
        block_barrier(1)
        return_vertices(thread, group, span, members, p, room)
        block_barrier(1)


@wp.func
def solve_clumps(
    t: int,
    threads: int,
    sweeps: int,
    sizes: wp.array[int],
    spans: wp.array[int],
    contacts: wp.array[int],
    contact_colours: wp.array[int],
    corners: wp.array[wp.vec4i],
    members: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """So many sweeps of impulses over all clumps, each by one block."""
    room = shelf()
    block = block_size()
    thread = t % block
    for group in range(t // block, GROUPS, threads // block):
        size = sizes[group]
        span = spans[group]
        first_place = MOST_CONTACTS * group
        place_vertices(thread, group, span, members, p, room)
        parts = (size + block - 1) // block
        for turn in range(sweeps * parts):
            # a contact for each thread; who has none has that of the first
            begin = first_place + block * (turn % wp.max(parts, 1))
            count = wp.min(block, first_place + size - begin)
            place = begin + wp.where(thread < count, thread, 0)
            mine = contact_colours[place]
            low = contact_colours[begin]
            high = contact_colours[begin + count - 1]
            corner = load_vec4i(corners, place)
            i = contacts[place]
            q = load_vec4i(vertices, i)
            w = load_vec4d(weights, i)
            n = normals[i]
            speed = speeds[i]
            mu = load_vec2d(friction, i)
            given = push[i]
            before = drag[i]
            g = wp.vec4d()
            for k in range(4):
                g[k] = w[k] * p[q[k]][3]
            total = wp.dot(w, g)
            held = held_corners(q, w, corner, p)
            # those in one part go on alone
            again = wp.where(parts == 1, sweeps, 1)
            block_barrier(1)
            busy = (count + 31) // 32 * 32
            if thread < busy:
                for _sweep in range(again):
                    for colour in range(low, high + 1):
                        if colour == mine and thread < count:
                            v0 = corner_at(corner[0], room)
                            v1 = corner_at(corner[1], room)
                            v2 = corner_at(corner[2], room)
                            v3 = corner_at(corner[3], room)
                            u = held + w[0] * v0 + w[1] * v1 + w[2] * v2 + w[3] * v3
                            normal_speed = wp.dot(n, u)
                            if total > wp.float64(0.0) and (given != wp.float64(0.0) or normal_speed < speed):
                                now, after, impulse = impulse_of(given, speed, u, normal_speed, n, total, mu, before)
                                given = now
                                before = after
                                # a corner without weight stands for nothing
                                if g[0] != wp.float64(0.0):
                                    put_on(room, corner[0], v0 + g[0] * impulse)
                                if g[1] != wp.float64(0.0):
                                    put_on(room, corner[1], v1 + g[1] * impulse)
                                if g[2] != wp.float64(0.0):
                                    put_on(room, corner[2], v2 + g[2] * impulse)
                                if g[3] != wp.float64(0.0):
                                    put_on(room, corner[3], v3 + g[3] * impulse)
                        meet_first(busy)
            if thread < count:
                push[i] = given
                drag[i] = before
            if parts == 1:
                break
        block_barrier(1)
        return_vertices(thread, group, span, members, p, room)
        block_barrier(1)
