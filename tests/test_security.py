"""A scene is data, names stay in their folder, and servers are for this machine unless told otherwise."""

import inspect
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.cache import Body, CacheWriter, open_cache
from weft.exchange.formats import FORMATS

LOOPBACK = "0100007F"


def listening(pids: set[int]) -> set[str]:
    """The local addresses, as the kernel writes them, on which processes listen."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                name = str(handle.readlink())
            except OSError:
                continue
            if name.startswith("socket:["):
                sockets.add(name[8:-1])
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the tables of Linux")


@needs_proc
def test_the_cluster_listens_on_this_machine_only():
    pytest.importorskip("distributed")
    code = (
        "import sys\n"
        "from weft.farm.cluster import connect\n"
        "if __name__ == '__main__':\n"
        "    with connect('local:2') as farm:\n"
        "        print('ready', flush=True)\n"
        "        sys.stdin.readline()\n"
    )
    script = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert script.stdout is not None and script.stdin is not None
        assert script.stdout.readline() == "ready\n"
        group = {int(p.name) for p in Path("/proc").glob("[0-9]*") if session_of(p) == script.pid}
        assert len(group) >= 3
        assert listening(group) == {LOOPBACK}
        script.stdin.write("\n")
        script.stdin.close()
        assert script.wait(timeout=60) == 0
    finally:
        script.kill()
        script.wait()


def test_other_processes_cannot_use_the_cluster():
    distributed = pytest.importorskip("distributed")
    from weft.farm.cluster import connect

    with connect("local:1") as farm:
        cluster = farm._client.cluster
        address, http = cluster.scheduler_address, cluster.scheduler.http_server.port
        (worker,) = farm.workers.values()
        open_to_all = [a for a in (address, worker["nanny"], *farm.workers) if not a.startswith("tls://127.0.0.1:")]
        assert open_to_all == []
        stranger = distributed.Security.temporary()
        for place in (address, worker["nanny"], *farm.workers):
            assert not answers(place, None) and not answers(place, stranger)
            assert answers(place, cluster.security)
        # nor are there pages about the runs
        for path in ("/", "/info/main/workers.html", "/json/counts.json", "/proxy/1/127.0.0.1/x"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{http}{path}")


def answers(address: str, security) -> bool:
    """Whether a server of Dask answers a client that does not care who the server is."""
    place = address.removeprefix("tls://").partition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if security is not None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pem"
            file.write_text(security.tls_client_key + security.tls_client_cert)
            context.load_cert_chain(file)
    try:
        plain = socket.create_connection((place[0], int(place[2])), timeout=30)
        with plain, context.wrap_socket(plain) as encrypted:
            # Dask's server sends its handshake first
            return len(encrypted.recv(1)) == 1
    except (ssl.SSLError, OSError):
        return False


@pytest.mark.parametrize(
    "settings", [{}, {"distributed.comm.tls.ca-file": "/none", "distributed.comm.tls.client.cert": "x"}]
)
def test_an_encrypted_scheduler_without_settings_is_one_line(settings):
    dask = pytest.importorskip("dask")
    from weft.farm.cluster import FarmError, connect

    words = r"set distributed\.comm\.tls\.ca-file.*DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
    with dask.config.set(settings), pytest.raises(FarmError, match=words), connect("tls://127.0.0.1:1"):
        pass


def test_a_cluster_needs_its_certificate(monkeypatch):
    pytest.importorskip("distributed")
    from weft.farm.cluster import connect

    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(weft.WeftError, match=r"cryptography.*weft-cloth\[farm\]"), connect("local:1"):
        pass


def session_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, ValueError):
        return -1


@needs_proc
def test_the_viewer_listens_on_this_machine_only(tmp_path):
    pytest.importorskip("viser")
    from weft.view.viewer import Viewer

    scene = weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(cells=(2, 2)))], frames=1, method="plain")
    before = listening({os.getpid()})
    viewer = Viewer(weft.simulate(scene, tmp_path / "a.zarr", progress=False), port=18080)
    try:
        assert listening({os.getpid()}) == before | {LOOPBACK}
    finally:
        viewer.close()


def test_who_serves_says_for_whom():
    from weft.cli.view import view
    from weft.view import view_cache

    for serves in (view, view_cache):
        assert inspect.signature(serves).parameters["host"].default == "127.0.0.1"


class Harm:
    """Unpickling it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_loading_runs_nothing(tmp_path):
    mark = tmp_path / "harm"
    harmful = np.array([Harm(mark)], dtype=object)
    np.savez(tmp_path / "mesh.npz", vertices=harmful, faces=harmful)
    np.savez(tmp_path / "seam.npz", stitch_vertices=harmful)
    with pytest.raises(weft.WeftError):
        weft.load_mesh(tmp_path / "mesh.npz")
    scene = tmp_path / "a.toml"
    scene.write_text('cloth = [{mesh = "mesh.npz"}]')
    with pytest.raises(weft.WeftError):
        weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    scene.write_text(
        'cloth = [{shape = {kind = "grid"}, pins = [{boundary = "top", motion = '
        '{kind = "sequence", file = "mesh.npz", fps = 1}}]}]'
    )
    with pytest.raises(weft.WeftError):
        weft.simulate(scene, tmp_path / "b.zarr", progress=False)
    # text is text, whatever it looks like
    for text in ("__import__('os').system('true')", "$(touch harm)", "`touch harm`", "{{1+1}}", "%s%n"):
        scene.write_text(f'name = "{text}"\ncloth = [{{shape = {{kind = "grid", cells = [2, 2]}}}}]')
        assert weft.load_scene(scene).name == text
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["..", ".", "...", " ", "a/../../b", "..\\x", "C:x", "con", "-o", "~", "$HOME", "a" * 300]
)
def test_names_of_bodies_stay_in_the_folder(tmp_path, name):
    # a scene refuses separators; a cache may come from anywhere
    body = Body(name, "cloth", slice(0, 3), slice(0, 1))
    out = tmp_path / "in" / "exports"
    path = tmp_path / "in" / "a.zarr"
    with CacheWriter.create(path, frames=2, faces=[[0, 1, 2]], bodies=[body], fps=30) as writer:
        for _ in range(2):
            writer.append(np.eye(3), np.zeros((3, 3)), {"status": "ok"})
    cache = open_cache(path)
    for format in FORMATS:
        if format == "usd":
            pytest.importorskip("pxr")
        try:
            weft.export(cache, out / format, format=format)
        except weft.WeftError as error:
            assert str(error)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == ["a.zarr", "exports"]
    assert {p.name.partition(".")[0] for p in out.iterdir()} <= set(FORMATS)


@pytest.mark.parametrize("name", ["a/b", "../x", "/etc/x", "a\\b", "a\nb", "", "  ", "\x00"])
def test_scenes_refuse_names_that_are_paths(tmp_path, name):
    scene = tmp_path / "a.toml"
    scene.write_text(f'cloth = [{{name = {json.dumps(name)}, shape = {{kind = "grid"}}}}]')
    with pytest.raises(weft.WeftError):
        weft.load_scene(scene)
