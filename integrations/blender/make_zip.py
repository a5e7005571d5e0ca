# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack the extension into a zip that Blender installs (Preferences, Get Extensions, Install from Disk).

    python integrations/blender/make_zip.py [dist/weft_cloth.zip]
    python integrations/blender/make_zip.py dist/weft_cloth-linux.zip --wheels --python 3.11

Without --wheels it is small and uses a weft that is installed. With --wheels weft and all that it needs are inside, for one
system and one Python: 3.11 for Blender 4.2 to 5.0, 3.13 for later ones. --platform names another system, as pip does.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "weft_cloth"
ROOT = HERE.parents[1]
# pip's platform -> Blender's
PLATFORMS = {
    "manylinux_2_28_x86_64": "linux-x64",
    "macosx_11_0_arm64": "macos-arm64",
    "win_amd64": "windows-x64",
}
HOST = {"linux": "manylinux_2_28_x86_64", "darwin": "macosx_11_0_arm64", "win32": "win_amd64"}
# Blender's versions by their Python
BLENDERS = {"3.11": ("4.2.0", "5.1.0"), "3.13": ("5.1.0", None)}


def version() -> str:
    """That of weft, from its only place."""
    text = (ROOT / "src" / "weft" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def manifest(wheels: list[str], platform: str | None = None, python: str | None = None) -> str:
    """The manifest with the version, and with the wheels and for whom they are."""
    text = (SOURCE / "blender_manifest.toml").read_text(encoding="utf-8")
    text = re.sub(r"# make_zip.py.*\nversion = .*", f'version = "{version()}"', text)
    if not wheels:
        return text
    assert platform is not None and python is not None
    first, last = BLENDERS[python]
    listed = ",\n".join(f'    "./wheels/{name}"' for name in wheels)
    more = f'platforms = ["{PLATFORMS[platform]}"]\nwheels = [\n{listed},\n]\n'
    if last is not None:
        more = f'blender_version_max = "{last}"\n{more}'
    text = re.sub(r'blender_version_min = ".*"', f'blender_version_min = "{first}"', text)
    return text.replace("\n[permissions]", f"{more}\n[permissions]")


def fetch_wheels(folder: Path, platform: str, python: str) -> list[Path]:
    """The wheel of weft from these sources, and the wheels of all that it depends on."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    own = next(folder.glob("weft_cloth-*.whl"))
    # older wheels of the same system are good too
    tags = [
        platform,
        *(["manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_27_x86_64"] if "linux" in platform else []),
    ]
    system = [word for tag in tags for word in ("--platform", tag)]
    options = ["--only-binary", ":all:", "--python-version", python, *system, "--dest", str(folder)]
    subprocess.run([*pip, "download", *options, str(own)], check=True)
    return sorted(folder.glob("*.whl"))


def make_zip(out: Path, wheels: list[Path] = (), platform: str | None = None, python: str | None = None) -> Path:
    """The same files give the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    files = {path.name: path.read_bytes() for path in sorted(SOURCE.glob("*.py"))}
    files["blender_manifest.toml"] = manifest([w.name for w in wheels], platform, python).encode()
    files["LICENSE"] = (HERE / "LICENSE").read_bytes()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(_entry(f"weft_cloth/{name}"), content)
        for path in wheels:
            # compressed already
            archive.writestr(_entry(f"weft_cloth/wheels/{path.name}", zipfile.ZIP_STORED), path.read_bytes())
    return out


def _entry(name: str, compression: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = compression
    return info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=Path("dist/weft_cloth.zip"))
    parser.add_argument("--wheels", action="store_true", help="put weft and its dependencies inside")
    parser.add_argument("--python", choices=sorted(BLENDERS), default="3.11")
    parser.add_argument(
        "--platform", choices=sorted(PLATFORMS), default=HOST.get(sys.platform, "manylinux_2_28_x86_64")
    )
    given = parser.parse_args()
    if not given.wheels:
        print(make_zip(given.out))
        return
    with tempfile.TemporaryDirectory() as folder:
        wheels = fetch_wheels(Path(folder), given.platform, given.python)
        print(make_zip(given.out, wheels, given.platform, given.python))


if __name__ == "__main__":
    main()
