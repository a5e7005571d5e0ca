"""Frames on disk: written atomically, with checksums, readable while a run goes on, sufficient to resume it."""

from weft.cache.foreign import ForeignResult, open_result
from weft.cache.frames import choose_frames
from weft.cache.reader import Body, Cache, CachedBody, Frame, open_cache, scene_of
from weft.cache.report import Report
from weft.cache.writer import CacheWriter, FrameWriter

__all__ = [
    "Body",
    "Cache",
    "CacheWriter",
    "CachedBody",
    "ForeignResult",
    "Frame",
    "FrameWriter",
    "Report",
    "choose_frames",
    "open_cache",
    "open_result",
    "scene_of",
]
