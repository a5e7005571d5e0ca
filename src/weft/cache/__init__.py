"""Frames on disk: atomic, checked, readable while they are written, and enough to go on from."""

from weft.cache.frame_writer import FrameWriter
from weft.cache.reader import Body, Cache, open_cache, scene_of
from weft.cache.report import Report
from weft.cache.writer import CacheWriter

__all__ = ["Body", "Cache", "CacheWriter", "FrameWriter", "Report", "open_cache", "scene_of"]
