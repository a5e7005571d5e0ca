"""Frames on disk: written atomically, with checksums, readable while a run goes on, sufficient to resume it."""

from weft.cache.reader import Body, Cache, Report, open_cache, scene_of
from weft.cache.writer import CacheWriter, FrameWriter

__all__ = ["Body", "Cache", "CacheWriter", "FrameWriter", "Report", "open_cache", "scene_of"]
