"""three.js from the npm registry, pinned, and a page in Chromium that plays GLB files with it."""

import functools
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PACKAGES = ("three@0.187.0", "gltf-validator@2.0.0-dev.3.10")
CHROMIUM = Path("/usr/bin/chromium")


def install(folder: Path) -> Path:
    """A folder with the packages in node_modules; skips the test where that cannot be."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so there is no three.js")
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", *PACKAGES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm could not install {', '.join(PACKAGES)}: {done.stderr.strip().splitlines()[-1:]}")
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def page_of(folder: Path):
    """A page in Chromium that is served from the folder and has loaded three.js."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there")
    (folder / "index.html").write_text(Path(__file__).with_name("three_page.html").read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with sync_api.sync_playwright() as playwright:
            # software rendering, on machines without a graphics card
            options = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=options)
            page = browser.new_page(viewport={"width": 480, "height": 360})
            said: list[str] = []
            page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
            page.wait_for_function("window.ready", timeout=60_000)
            yield page
            wrong = [text for text in said if "favicon" not in text and "404" not in text]
            assert not wrong, wrong
            browser.close()
    finally:
        server.shutdown()
