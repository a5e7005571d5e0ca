"""Which patches overlap a patch: boxes of sixteen patches, and of sixteen such blocks, are compared at once.

Patches that follow each other are neighbours, so that this needs no tree, and what it finds is in order.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.broad_phase.boxes import Box

wp.set_module_options({"enable_backward": False})

# patches a block and blocks a group: what the vector units compare at once
BLOCK = wp.constant(16)


@wp.func_native(
    """
#if !defined(__CUDACC__)
    // which of sixteen boxes from `begin` on overlap the one with this limit
    const auto sixteen = [&](const wp::array_t<wp::float32>& planes, int begin) {
        const float* p = planes.data + begin;
        const size_t stride = planes.strides[0] / sizeof(float);
        unsigned int bits = 0;
        for (int k = 0; k < 16; ++k) {
            const unsigned int hit = (p[k] <= limit[0]) & (p[k + stride] <= limit[1]) & (p[k + 2 * stride] <= limit[2])
                & (p[k + 3 * stride] <= limit[3]) & (p[k + 4 * stride] <= limit[4]) & (p[k + 5 * stride] <= limit[5]);
            bits |= hit << k;
        }
        return bits;
    };
    const size_t stride = row_boxes.strides[0] / sizeof(float), from = patch_boxes.strides[0] / sizeof(float);
    const int* lets = table.data + own * (int)(table.strides[0] / sizeof(int));
    int* row = rows.data + place;
    int n = 0;
    const int groups = (patches + 255) / 256;
    for (int base = first / 256 / 16 * 16; base < groups; base += 16) {
        unsigned int near_groups = sixteen(group_boxes, base);
        for (; near_groups; near_groups &= near_groups - 1) {
            const int group = base + __builtin_ctz(near_groups);
            unsigned int near_blocks = sixteen(block_boxes, 16 * group);
            for (; near_blocks; near_blocks &= near_blocks - 1) {
                const int block = 16 * group + __builtin_ctz(near_blocks);
                unsigned int near = sixteen(patch_boxes, 16 * block);
                for (; near; near &= near - 1) {
                    const int patch = 16 * block + __builtin_ctz(near);
                    if (patch < first || patch >= patches || lets[body.data[patch]] == 0)
                        continue;
                    if (n == room)
                        return -1;
                    row[n] = patch;
                    for (int k = 0; k < 6; ++k)
                        row_boxes.data[k * stride + place + n] = patch_boxes.data[k * from + patch];
                    ++n;
                }
            }
        }
    }
    return n;
#else
    return 0;
#endif
    """
)
def find_row(
    first: int,
    patches: int,
    limit: Box,
    own: int,
    body: wp.array[int],
    table: wp.array2d[int],
    group_boxes: wp.array2d[wp.float32],
    block_boxes: wp.array2d[wp.float32],
    patch_boxes: wp.array2d[wp.float32],
    room: int,
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    place: int,
) -> int:
    """The patches from `first` on that a body's patch overlaps, ascending, and their boxes, from `place` on.

    Gives their number, or -1 if there are more than there is room for.
    """
    ...
