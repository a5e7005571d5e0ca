"""Who may use the server of `weft view` and `weft play`, and which messages it accepts from a browser.

The server belongs to whoever has its address: the path holds a random token that is made at every start. A request must
also name this machine (the Host header, against names that are redirected to it) and come from the page of this server
(the Origin header, against other pages that run in the same browser). Of the messages that viser understands, the few
that the controls send are accepted, with the types that viser declares and values within the limits of the control;
everything else is dropped, among it uploads and the request for a public tunnel.
"""

import contextlib
import hmac
import io
import ipaddress
import logging
import math
import secrets
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from weft.errors import WeftError, missing_extra

if TYPE_CHECKING:
    import viser

# the messages of the browser that are needed: the controls, the hot keys, the mouse, the camera
MESSAGES = ("GuiUpdateMessage", "CommandTriggerMessage", "SceneNodeDragMessage", "ViewerCameraMessage")
# bytes of a message; those of the controls have a few hundred
LARGEST_MESSAGE = 1 << 16
# browsers at a time, and open sockets at a time, those that have sent no request yet among them
CLIENTS = 16
SOCKETS = 64
# no number of a message may be larger: far beyond every scene, and its square is still finite
LARGEST_NUMBER = 1e9
# pixels of a window, and how many times wider than high it may be, or higher than wide: pictures have its shape
LARGEST_WINDOW, NARROWEST_WINDOW = 1 << 15, 16.0
# digits of the number in a request
LONGEST_NUMBER = 9
# one server at a time starts, since its start replaces a function of websockets
_starting = threading.Lock()


class Gate:
    """Decides about requests (`answer`) and messages (`checked`) of one server."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_urlsafe(24)
        self.server: Any = None
        self.actions: dict[str, Callable[[int], None]] = {}
        """what a request for the path do/<key>/<number> does: how HTML among the controls talks back, where viser has no way"""
        self._names = {host.lower(), "localhost", socket.gethostname().lower()}

    def answer(self, connection: Any, request: Any, serve_page: Any) -> Any:
        """The response to a request; None accepts a websocket. `serve_page` is viser's handler of requests."""
        first, _, rest = request.path.partition("?")[0].lstrip("/").partition("/")
        if not hmac.compare_digest(first.encode(), self.token.encode()):
            return connection.respond(HTTPStatus.FORBIDDEN, "open the address that weft has printed\n")
        host, origin = request.headers.get("Host", "").lower(), request.headers.get("Origin")
        if not self._is_here(urlsplit(f"//{host}").hostname or ""):
            return connection.respond(HTTPStatus.FORBIDDEN, f"{host} is no name of this machine that weft knows\n")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return connection.respond(HTTPStatus.FORBIDDEN, "this is for pages of weft only\n")
        if "Upgrade" in request.headers and len(connection.server.connections) >= CLIENTS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{CLIENTS} browsers are connected\n")
        if rest.startswith("do/"):
            return self._act(connection, rest)
        response = serve_page(connection, type(request)(f"/{rest}", request.headers))
        if response is not None:
            # the address is a secret: it goes neither to other sites nor into a cache
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
        return response

    def _act(self, connection: Any, path: str) -> Any:
        """Do what a request for do/<key>/<number> asks for."""
        _, key, number = [*path.split("/"), "", ""][:3]
        if key not in self.actions or not number.isascii() or not number.isdigit() or len(number) > LONGEST_NUMBER:
            return connection.respond(HTTPStatus.NOT_FOUND, "there is no such control\n")
        self.actions[key](int(number))
        return connection.respond(HTTPStatus.NO_CONTENT, "")

    def checked(self, raw: Any) -> bytes | None:
        """A message of the browser with its values in their limits; None if it is not accepted."""
        import msgspec
        from viser import _messages

        try:
            fields = msgspec.msgpack.decode(raw)
            kind = fields.pop("type")
            if kind not in MESSAGES or not _is_small(fields):
                return None
            # msgspec checks types, lengths of tuples and words against what viser's class declares
            fields = msgspec.to_builtins(msgspec.convert(fields, getattr(_messages, kind)))
            if kind == "GuiUpdateMessage":
                fields["updates"] = self._in_limits(fields["uuid"], fields["updates"])
            if kind == "ViewerCameraMessage" and not _is_camera(fields):
                return None
            return msgspec.msgpack.encode({"type": kind, **fields})
        except Exception:
            # whatever is wrong with it: it comes from outside
            return None

    def _in_limits(self, uuid: str, updates: dict[str, Any]) -> dict[str, Any]:
        """The update of a control, which may change its value only; raises an error if the value is not of its kind."""
        handle = self._control(uuid)
        if set(updates) != {"value"}:
            raise ValueError(updates)
        value, kind = updates["value"], type(handle.value)
        if kind in (int, float) and type(value) in (int, float):
            return {"value": kind(min(max(value, handle.min), handle.max))}
        if type(value) is not kind or (kind is str and value not in handle.options):
            raise ValueError(value)
        return {"value": value}

    def _control(self, uuid: str) -> Any:
        """A control by its number: of all browsers, or of one."""
        for scope in (self.server, *self.server.get_clients().values()):
            found = scope.gui._gui_input_handle_from_uuid.get(uuid)
            if found is not None:
                return found
        raise KeyError(uuid)

    def _is_here(self, name: str) -> bool:
        """Whether a request names this machine: only names can be redirected by others, numeric addresses cannot."""
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return name in self._names


def _is_small(value: Any) -> bool:
    """Whether all numbers in a message are finite and not too large."""
    if isinstance(value, dict | list):
        return all(map(_is_small, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int | float) or (math.isfinite(value) and abs(value) <= LARGEST_NUMBER)


def _is_camera(fields: dict[str, Any]) -> bool:
    """Whether a camera has a window, an angle and a direction of view."""
    width, height = fields["image_width"], fields["image_height"]
    window = 0 < width <= LARGEST_WINDOW and 0 < height <= LARGEST_WINDOW
    shape = window and 1.0 / NARROWEST_WINDOW <= width / height <= NARROWEST_WINDOW
    apart = math.dist(fields["position"], fields["look_at"]) > 0.0
    return bool(shape and 0.0 < fields["fov"] < math.pi and apart)


def start_server(host: str, port: int) -> "tuple[viser.ViserServer, str, Gate]":
    """A viser server behind a `Gate`, its address with the token, and the gate."""
    try:
        import viser
        from viser import _messages
    except ImportError as error:
        raise missing_extra("view", "viser") from error
    _check_host(host)
    gate = Gate(host)
    # viser's banner has an address without the token; the command prints the whole one
    with _silent(), _starting, _behind(gate) as used:
        server = viser.ViserServer(host=host, port=port, label="weft", verbose=False)
    if not used:
        stop_server(server)
        raise WeftError(f"viser {viser.__version__} cannot be protected from other users: install viser 1.1")
    gate.server = server
    server.scene.set_up_direction("+y")
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    # beside the picture instead of over it
    server.gui.main_panel.dock_right()
    # a browser may go away at any moment: what was on its way to it is lost, and nobody needs to hear of it
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        server._websock_server.unregister_handler(message)
    shown = socket.gethostname() if _is_open(host) else host
    return server, f"http://{f'[{shown}]' if ':' in shown else shown}:{server.get_port()}/{gate.token}/", gate


def stop_server(server: "viser.ViserServer") -> None:
    """Stop serving, without viser's message about it."""
    with _silent():
        server.stop()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing of what viser prints appears: in a notebook it goes past the standard output."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        console.quiet = before


def serve(view: Any, name: str, *, host: str, browser: bool) -> None:
    """Print the address of a view and serve it until interrupted."""
    try:
        print(f"{name} is at {view.url}  (Ctrl-C ends it)", flush=True)
        if not _is_loopback(host):
            print(
                f"warning: {host} is open to the network, unencrypted: everybody who sees this address can use it",
                file=sys.stderr,
            )
        if browser:
            import webbrowser

            webbrowser.open(view.url)
        view.run()
    except KeyboardInterrupt:
        pass
    finally:
        view.close()


@contextlib.contextmanager
def _behind(gate: Gate) -> Iterator[list[bool]]:
    """Put a gate before the viser server that is started in the meantime; the list is not empty if that worked.

    viser has no option for it, so its call of `websockets.serve` is given other arguments.
    """
    from websockets.asyncio import server

    original, used = server.serve, []
    # what strangers send is not worth a line in the terminal
    quiet = logging.getLogger("weft.view.access")
    quiet.setLevel(logging.CRITICAL)

    class Connection(server.ServerConnection):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.server.handlers) > SOCKETS:
                transport.abort()

        async def recv(self, decode: bool | None = None) -> Any:
            while (message := gate.checked(await super().recv(decode))) is None:
                pass
            return message

    def guarded(*arguments: Any, process_request: Any, **options: Any) -> Any:
        used.append(True)
        options |= {"max_size": LARGEST_MESSAGE, "create_connection": Connection, "logger": quiet}
        answer = lambda connection, request: gate.answer(connection, request, process_request)  # noqa: E731
        return original(*arguments, process_request=answer, **options)

    server.serve = guarded  # type: ignore[assignment, misc]
    try:
        yield used
    finally:
        server.serve = original  # type: ignore[misc]


def _check_host(host: str) -> None:
    """Refuse an address that is none of this machine; viser would wait for it forever."""
    try:
        family, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.bind(address)
    except OSError as error:
        raise WeftError(f"--host {host}: cannot listen there ({error.strerror or error})") from None


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _is_open(host: str) -> bool:
    """Whether the address stands for all addresses of this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
