"""Headless Chromium over its debugging pipe: enough to open a page, ask it things and press its buttons."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab. ``problems`` gathers what the console complains of, ``asked`` every address that was fetched."""

    def __init__(self, profile: Path, downloads: Path) -> None:
        assert CHROMIUM is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4; bash puts them there.
        line = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        command = ["bash", "-c", line, CHROMIUM, *flags, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._last, self._session = b"", 0, ""
        self._loads = 0
        self.problems: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session and not method.startswith("Browser."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loads += 1

    def open(self, path: Path) -> None:
        """Load a file and wait until it is loaded."""
        before = self._loads
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self._loads == before:
            self._next()

    def look(self, width: int, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """The size of the window, the colour scheme of the user, and the medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, after the next frame."""
        code = f"new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done({expression}))))"
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < end, f"not true: {expression}; {self.problems}"

    def move(self, x: float, y: float) -> None:
        """Put the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))


def wait_for(path: Path, seconds: float = 20.0) -> Path:
    """A file that is about to be written, once it is whole."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < until, f"no {path.name}; there is {sorted(p.name for p in path.parent.iterdir())}"
        time.sleep(0.05)
    return path
