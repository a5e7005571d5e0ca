"""Pack the add-on into a zip that Blender installs (Preferences, Add-ons, Install from Disk).

python integrations/blender/make_zip.py [dist/weft_cloth.zip]
"""

import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent / "weft_cloth"


def make_zip(out: Path) -> Path:
    """The same files give the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(p for p in SOURCE.iterdir() if p.suffix in (".py", ".toml")):
            info = zipfile.ZipInfo(f"weft_cloth/{path.name}", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return out


if __name__ == "__main__":
    print(make_zip(Path(sys.argv[1] if len(sys.argv) > 1 else "dist/weft_cloth.zip")))
