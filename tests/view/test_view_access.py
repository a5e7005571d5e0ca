"""Strangers and hostile messages at the server of `weft view` and `weft play`: raw websockets, and Chromium."""

import asyncio
import math
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from view_caches import waving

import weft
from weft.errors import WeftError
from weft.view import access

viser = pytest.importorskip("viser")
msgspec = pytest.importorskip("msgspec")
websockets = pytest.importorskip("websockets")

from weft.view.play import LiveView  # noqa: E402
from weft.view.viewer import Viewer  # noqa: E402

CHROMIUM = Path("/usr/bin/chromium")
NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module")
def viewer():
    opened = Viewer(waving(frames=6), port=8620)
    # a tab that all clients see, so that its controls can be named
    opened.tab = opened.open_tab(-1, opened._server)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def play():
    opened = LiveView(
        weft.Scene(
            fps=30,
            cloths=[
                weft.Cloth(
                    name="napkin", shape=weft.Grid(size=(0.4, 0.4), cells=(4, 4)), pins=[weft.Pin(boundary="top")]
                )
            ],
            method="predictive",
        ),
        port=8640,
    )
    yield opened
    opened.close()


@contextmanager
def connected(view, path=None, **options):
    """A websocket as a browser opens it, on a loop of its own; `post` sends a message in viser's format."""
    url = view.url if path is None else f"http://127.0.0.1:{view._server.get_port()}/{path}"
    options = {"subprotocols": [f"viser-v{viser.__version__}"], "max_size": None, "proxy": None, **options}
    with asyncio.Runner() as runner:
        socket = runner.run(open_socket(url.replace("http", "ws").rstrip("/"), options))

        def send(raw):
            runner.run(socket.send(raw))

        def post(kind, **fields):
            send(msgspec.msgpack.encode({"type": kind, **fields}))

        try:
            post("ViewerCameraMessage", **CAMERA)
            yield SimpleNamespace(post=post, raw=send, run=runner.run, socket=socket)
        finally:
            runner.run(socket.close())


async def open_socket(url, options):
    return await websockets.connect(url, **options)


CAMERA = {
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (0.0, 0.0, 1.0),
    "fov": 1.0,
    "near": 0.1,
    "far": 10.0,
    "image_height": 100,
    "image_width": 100,
    "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 1.0, 0.0),
}
DRAG = {
    "phase": "start",
    "name": "/body0/front",
    "instance_index": None,
    "start_position": (0.0, 0.0, 0.0),
    "start_screen_pos": (0.5, 0.5),
    "end_position": (0.0, 0.0, 0.0),
    "end_screen_pos": (0.5, 0.5),
    "button": "left",
    "modifier": None,
    "owner": "",
}


def until(what, *, patience=20.0):
    end = time.monotonic() + patience
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def status(view, path, **headers):
    """The status of a plain request."""
    request = urllib.request.Request(f"http://127.0.0.1:{view._server.get_port()}{path}", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_needs_the_token_and_the_name_of_this_machine(viewer):
    token = viewer.url.rstrip("/").rpartition("/")[2]
    assert len(token) >= 32
    assert status(viewer, f"/{token}/") == 200
    assert status(viewer, f"/{token}") == 200
    for path in ("/", "/index.html", f"/{token[:-1]}/", f"/{token}x/", f"/?token={token}", f"/x/{token}/", "/%00/"):
        assert status(viewer, path) == 403
    for path in (f"/{token}/../../../../etc/passwd", f"/{token}/none"):
        assert status(viewer, path) == 404
    for host in ("localhost", "localhost:9000", "127.0.0.1:1", "[::1]:80"):
        assert status(viewer, f"/{token}/", Host=host) == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8620", "[", ""):
        assert status(viewer, f"/{token}/", Host=host) in (403, 500)


def test_every_server_has_its_own_token(viewer, play):
    assert viewer.url.rpartition(":")[2] != play.url.rpartition(":")[2]
    assert status(play, viewer.url.partition(str(viewer._server.get_port()))[2]) == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://localhost"])
def test_pages_of_another_origin_are_refused_even_with_the_token(viewer, origin):
    with pytest.raises(websockets.exceptions.InvalidStatus, match="403"), connected(viewer, origin=origin):
        pass


def test_sockets_without_the_token_are_refused(viewer):
    for path in ("", "x", "index.html"):
        with pytest.raises(websockets.exceptions.InvalidStatus, match="403"), connected(viewer, path):
            pass
    with connected(viewer, origin=f"http://127.0.0.1:{viewer._server.get_port()}") as client:
        assert len(client.run(client.socket.recv())) > 100


def test_the_number_of_clients_and_sockets_is_bounded(viewer, monkeypatch):
    monkeypatch.setattr(access, "CLIENTS", 1)
    until(lambda: not viewer._server._websock_server._live_connections)
    with connected(viewer), pytest.raises(websockets.exceptions.InvalidStatus, match="503"), connected(viewer):
        pass
    monkeypatch.setattr(access, "SOCKETS", 0)
    with pytest.raises(OSError):
        status(viewer, "/")


def hostile_values(slider):
    """Updates of a slider that must neither end a loop nor be shown to other browsers."""
    yield from ({"value": v} for v in (slider.max + 1e6, slider.min - 1e6, 1e300, -1e300, 1 << 63))
    yield from ({"value": v} for v in (None, "1", True, [1.0], {}, b"1"))
    yield from ({"props": None}, {"removed": True}, {"value": 1.0, "props": None}, {"update_cb": []}, {}, {"min": -1e9})
    # last, since a later value would hide them
    yield from ({"value": v} for v in (INF, -INF, NAN))


def bad_messages():
    yield "SceneNodeDragMessage", DRAG | {"end_position": (0.0, 0.0)}
    yield "SceneNodeDragMessage", DRAG | {"end_position": None}
    yield "SceneNodeDragMessage", DRAG | {"end_position": "abc"}
    yield "SceneNodeDragMessage", DRAG | {"phase": "begin"}
    yield "SceneNodeDragMessage", DRAG | {"name": 7}
    yield "SceneNodeDragMessage", DRAG | {"name": "/none"}
    yield "SceneNodeDragMessage", DRAG | {"more": 1}
    yield "SceneNodeDragMessage", {"phase": "start"}
    yield "ViewerCameraMessage", CAMERA | {"wxyz": (1.0,)}
    yield "CommandTriggerMessage", {"uuid": None}
    yield "CommandTriggerMessage", {}
    yield "GuiUpdateMessage", {"uuid": "none", "updates": {"value": 1}}
    yield "GuiUpdateMessage", {"uuid": "none", "updates": None}
    yield "GuiFormDirtyMessage", {"uuid": "x" * 10_000}
    yield "ShareUrlDisconnect", {}
    yield "RunJavascriptMessage", {"source": "alert(1)"}
    yield "RemoveSceneNodeMessage", {"name": "/body0"}
    yield "Nothing", {}
    yield 7, {}
    yield None, {}
    for number in (1e300, INF, NAN):
        yield "SceneNodeDragMessage", DRAG | {"end_position": (0.0, number, 0.0)}
        yield "SceneNodeDragMessage", DRAG | {"start_position": (0.0, 0.0, number)}
        yield "ViewerCameraMessage", CAMERA | {"position": (0.0, number, 0.0)}
    for fields in BAD_CAMERAS:
        yield "ViewerCameraMessage", CAMERA | fields


# without a window, with one whose pictures would fill the memory, without an angle, without a direction of view
BAD_CAMERAS = (
    {"image_height": 0},
    {"image_width": 0},
    {"image_height": -100},
    {"image_height": 1_000_000_000},
    {"image_width": 1, "image_height": 30_000},
    {"fov": 0.0},
    {"fov": 4.0},
    {"look_at": CAMERA["position"]},
)
RAW = (b"", b"\xc1", b"\x93\x01\x02\x03", b"\x91" * 5000, "text", msgspec.msgpack.encode({"type": ["a"]}), b"\x80")


def test_hostile_messages_do_not_end_play(play, capfd):
    panel = play.panel
    with connected(play) as client:
        for slider in (panel.stretch, panel.bend, panel.friction, panel.wind, panel.angle):
            for updates in hostile_values(slider):
                client.post("GuiUpdateMessage", uuid=slider._impl.uuid, updates=updates)
        for kind, fields in bad_messages():
            client.post(kind, **fields)
        for raw in RAW:
            client.raw(raw)
        # the connection and the controls still work; far outside is clamped
        client.post("GuiUpdateMessage", uuid=panel.friction._impl.uuid, updates={"value": 1000.0})
        client.post("GuiUpdateMessage", uuid=panel.wind._impl.uuid, updates={"value": 3})
        until(lambda: panel.wind.value == 3.0)
        assert panel.friction.value == panel.friction.max
        for slider in (panel.stretch, panel.bend, panel.friction, panel.wind, panel.angle):
            assert slider._impl.props is not None
            assert slider.min <= slider.value <= slider.max
        assert np.isfinite(play.hand.holds()[1:]).all()
        for k in range(10):
            play.step(100.0 + k * play.dt)
        assert np.isfinite(play.cloth.positions).all()
    # a client that comes later gets everything
    with connected(play) as late:
        assert len(late.run(late.socket.recv())) > 100
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_drag_reaches_the_loop_and_no_farther_than_the_scene(play):
    start = play.cloth.positions[-1].copy()
    with connected(play) as client:
        until(lambda: play._server.get_clients())
        fields = DRAG | {"start_position": tuple(start.tolist()), "end_position": (1e8, 0.0, 0.0)}
        client.post("SceneNodeDragMessage", **fields)
        until(lambda: play.hand.holds()[0] == "napkin")
        for k in range(200):
            play.step(200.0 + k * play.dt)
        assert np.isfinite(play.cloth.positions).all()
        assert 0.5 < play.cloth.targets[play._vertex, 0] < 20.0
        client.post("SceneNodeDragMessage", **(fields | {"phase": "end"}))
        until(lambda: play.hand.holds()[0] is None)


def test_hostile_messages_do_not_brick_the_viewer(viewer, capfd):
    panel = viewer.tab.panel
    handles = viewer._server.gui._gui_input_handle_from_uuid
    words = [handle for handle in handles.values() if isinstance(handle.value, str)]
    assert words
    with connected(viewer) as client:
        for updates in hostile_values(panel.slider):
            client.post("GuiUpdateMessage", uuid=panel.slider._impl.uuid, updates=updates)
        for handle in words:
            for value in ("none", "", "x" * 10_000, 3, None):
                client.post("GuiUpdateMessage", uuid=handle._impl.uuid, updates={"value": value})
        for kind, fields in bad_messages():
            client.post(kind, **fields)
        for raw in RAW:
            client.raw(raw)
        client.post("GuiUpdateMessage", uuid=panel.slider._impl.uuid, updates={"value": 4})
        until(lambda: panel.slider.value == 4)
        until(lambda: viewer.tab.player.frame == 4)
        viewer.step(1.0)
        assert "frame 4" in viewer.tab.caption
        assert all(handle.value in handle.options for handle in words)
    with connected(viewer) as late:
        assert len(late.run(late.socket.recv())) > 100
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_camera_that_cannot_draw_is_dropped(viewer):
    """A picture of a window of one by thirty thousand pixels would take the memory, and one of no height ends the loop."""
    gate = access.Gate("127.0.0.1")
    for fields in ({}, {"image_width": 1500, "image_height": 100}, *BAD_CAMERAS):
        taken = gate.checked(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **CAMERA, **fields}))
        assert (taken is None) == (fields in BAD_CAMERAS), fields
    with connected(viewer) as client:
        until(lambda: viewer._server.get_clients())
        for fields in BAD_CAMERAS:
            client.post("ViewerCameraMessage", **(CAMERA | fields))
        client.post("ViewerCameraMessage", **(CAMERA | {"image_width": 250}))
        until(lambda: any(c.camera.aspect == 2.5 for c in viewer._server.get_clients().values()))


def test_share_and_upload_are_gone(viewer, monkeypatch):
    asked = []
    monkeypatch.setattr(viser.ViserServer, "request_share_url", lambda *_, **__: asked.append(1))
    gui = viewer._server.gui
    with connected(viewer) as client:
        client.post("ShareUrlRequest")
        for k in range(50):
            client.post(
                "FileTransferStartUpload",
                source_component_uuid=viewer.tab.panel.slider._impl.uuid,
                transfer_uuid=f"t{k}",
                filename="a",
                mime_type="a",
                part_count=1000,
                size_bytes=1 << 40,
            )
            client.post(
                "FileTransferPart",
                source_component_uuid=viewer.tab.panel.slider._impl.uuid,
                transfer_uuid=f"t{k}",
                part_index=0,
                content=b"x" * 50_000,
            )
        client.post("GuiUpdateMessage", uuid=viewer.tab.panel.slider._impl.uuid, updates={"value": 2})
        until(lambda: viewer.tab.panel.slider.value == 2)
        assert gui._current_file_upload_states == {}
        for handle in viewer._server.get_clients().values():
            assert handle.gui._current_file_upload_states == {}
    assert asked == []
    with connected(viewer) as client:
        # larger than any control sends: the connection ends, the server does not
        client.raw(b"x" * (access.LARGEST_MESSAGE + 1))
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            while True:
                client.run(client.socket.recv())
    assert status(viewer, "/") == 403


def test_a_viser_that_cannot_be_guarded_is_not_used(monkeypatch):
    import websockets.asyncio.server as module

    class Fixed(module.serve):
        pass

    infra = pytest.importorskip("viser.infra._infra")
    monkeypatch.setattr(
        infra,
        "websockets",
        SimpleNamespace(
            **vars(websockets)
            | {
                "asyncio": SimpleNamespace(
                    server=SimpleNamespace(serve=Fixed, ServerConnection=module.ServerConnection)
                )
            }
        ),
    )
    with pytest.raises(WeftError, match=r"viser .* cannot be protected"):
        access.start_server("127.0.0.1", 8660)


def test_the_banner_of_viser_appears_nowhere():
    rich = pytest.importorskip("rich")
    # a notebook shows what rich prints, wherever the standard output goes
    with rich.get_console().capture() as shown:
        server, _, _ = access.start_server("127.0.0.1", 8660)
        access.stop_server(server)
    assert shown.get() == "" and not rich.get_console().quiet


@pytest.mark.parametrize("host", ["nowhere.invalid", "203.0.113.1"])
def test_an_address_that_is_not_here_is_refused(host):
    with pytest.raises(WeftError, match=f"--host {host}"):
        access.start_server(host, 8660)


def test_an_open_address_warns(capsys):
    view = SimpleNamespace(url="http://a/b/", run=lambda: None, close=lambda: None)
    access.serve(view, "a", host="127.0.0.1", browser=False)
    assert capsys.readouterr().err == ""
    access.serve(view, "a", host="0.0.0.0", browser=False)
    assert "open to the network" in capsys.readouterr().err


def test_ctrl_c_right_after_the_address_is_printed_ends_it_too(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    closed = []
    view = SimpleNamespace(url="http://a/b/", run=lambda: None, close=lambda: closed.append(1))
    monkeypatch.setattr("webbrowser.open", interrupted)
    access.serve(view, "a", host="127.0.0.1", browser=True)
    assert closed == [1]


@contextmanager
def page_of_another_origin(text):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium")
def test_chromium_refuses_a_page_of_another_origin(viewer):
    playwright = pytest.importorskip("playwright.sync_api")
    port = viewer._server.get_port()
    ask = f"""(url) => new Promise(done => {{
        const socket = new WebSocket(url, ["viser-v{viser.__version__}"]);
        socket.onopen = () => done("open");
        socket.onerror = () => done("refused");
    }})"""
    with page_of_another_origin("<p>a page") as other, playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--no-proxy-server"])
        page = browser.new_page()
        page.goto(other)
        # a stranger without the token, one who has stolen it, and one who reads the page
        assert page.evaluate(ask, f"ws://127.0.0.1:{port}/") == "refused"
        assert page.evaluate(ask, viewer.url.replace("http", "ws")) == "refused"
        read = f"fetch({viewer.url!r}).then(() => 'read', () => 'refused')"
        assert page.evaluate(read) == "refused"
        # the page of the viewer itself may
        page.goto(viewer.url)
        assert page.evaluate(ask, viewer.url.replace("http", "ws").rstrip("/")) == "open"
        browser.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the tables of Linux")
def test_play_has_no_process_to_leave_behind_and_ends_without_a_word(tmp_path):
    scene = tmp_path / "a.toml"
    scene.write_text('method = "predictive"\ncloth = [{shape = {kind = "grid", cells = [3, 3]}}]\n')
    command = [sys.executable, "-m", "weft", "play", str(scene), "--port", "8670"]
    for number, expected in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)):
        play = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "(Ctrl-C ends it)" in play.stdout.readline()
        url = SimpleNamespace(url=f"http://127.0.0.1:8670/{'x' * 32}/")
        with pytest.raises(websockets.exceptions.InvalidStatus), connected(url):
            pass
        assert Path(f"/proc/{play.pid}/task/{play.pid}/children").read_text() == ""
        play.send_signal(number)
        _, said = play.communicate(timeout=60)
        assert (play.returncode, said) == (expected, "")
