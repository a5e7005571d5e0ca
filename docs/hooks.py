"""mkdocs hook: pages whose tables come from the code are filled in when the site is built."""

from typing import Any

from weft.scene.describe import describe_presets, describe_scene

FILLED = {"<!-- all keys of a scene -->": describe_scene, "<!-- all presets -->": describe_presets}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each generated text in the place of its mark."""
    for mark, write in FILLED.items():
        if mark in markdown:
            markdown = markdown.replace(mark, write())
    return markdown
