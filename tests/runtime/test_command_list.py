"""Kernels one after another, without Python between them."""

import numpy as np
import warp as wp

from weft.runtime.command_list import CommandList

wp.set_module_options({"enable_backward": False})


@wp.kernel
def note(first: int, what: int, log: wp.array[int]):
    """Write a number behind those that are there; the first counts them."""
    if first + wp.tid() >= 0:
        log[0] = log[0] + 1
        log[log[0]] = what


@wp.kernel
def tell(first: int, what: wp.array[int], stop: wp.array[int]):
    """Write what there is to be written."""
    stop[first + wp.tid()] = what[0]


def numbers(count):
    return wp.zeros(count, dtype=int, device="cpu")


def noted(log):
    found = log.numpy()[1 : 1 + log.numpy()[0]].tolist()
    log.zero_()
    return found


def test_kernels_come_in_their_order_with_all_their_items():
    log, stop = numbers(20), numbers(1)
    twice = (note, 2, (7, log))
    chain = CommandList(stop, [(note, 1, (3, log)), twice, (note, 3, (5, log)), twice])
    for _ in range(2):
        assert chain.run() == 0
        assert noted(log) == [3, 7, 7, 5, 5, 5, 7, 7]


def test_a_kernel_may_end_the_chain_or_go_on_elsewhere():
    log, stop, what = numbers(20), numbers(1), numbers(1)
    chain = CommandList(
        stop,
        [(note, 1, (1, log)), (tell, 1, (what, stop)), (note, 1, (2, log))],
        [(note, 1, (3, log)), (note, 1, (4, log))],
        [(note, 1, (5, log))],
    )
    for told, ended, expected in ((0, 0, [1, 2]), (9, 9, [1]), (-1, 0, [1, 3, 4]), (-2, 0, [1, 5]), (0, 0, [1, 2])):
        what.fill_(told)
        assert chain.run() == ended
        assert noted(log) == expected


def test_arrays_are_read_as_they_are_then():
    log, stop, what = numbers(4), numbers(1), numbers(1)
    chain = CommandList(stop, [(tell, 1, (what, stop))])
    for value in (3, 0, 2):
        what.numpy()[0] = value
        assert chain.run() == value
    assert not np.any(log.numpy())
