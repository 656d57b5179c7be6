"""Headless Chromium, driven over its DevTools pipe; needs nothing but Python's library.

TANDEM_CHROMIUM names the program; otherwise one is looked for.
"""
import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

# Chromium reads commands from descriptor 3 and writes to 4.
_EXEC = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


def find_chromium():
    named = os.environ.get("TANDEM_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if path := shutil.which(name):
            return path
    return None


def _above(descriptor):
    """The same descriptor, out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    def __init__(self, chromium, *more):
        """more: flags of Chromium's."""
        self.profile = tempfile.TemporaryDirectory(prefix="tandem-page-", ignore_cleanup_errors=True)
        commands, self.write_end = map(_above, os.pipe())
        self.read_end, answers = map(_above, os.pipe())
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-extensions",
                 "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name, *more]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, str(commands), str(answers), chromium, *flags, "about:blank"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.profile.name))
        os.close(commands)
        os.close(answers)
        self.buffer, self.numbers, self.session = b"", itertools.count(1), None
        self.loads = 0
        self.errors, self.urls = [], []  # of the page: what its console complained of; what it asked for
        try:
            self._attach()
        except Exception:
            self.close()
            raise

    def _attach(self):
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(domain + ".enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    # --- The protocol ---
    def _receive(self, timeout):
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("chromium does not answer")
            data = os.read(self.read_end, 1 << 16)
            if not data:
                raise ConnectionError("chromium has ended")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append("%s %s" % (params["entry"]["text"], params["entry"].get("url", "")))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([arg.get("value") for arg in params["args"]]))
        elif method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Network.requestWillBeSent":
            self.urls.append(params["request"]["url"])

    def command(self, method, timeout=60, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(timeout)
            if answer.get("id") != number:
                self._event(answer)
                continue
            if "error" in answer:
                raise RuntimeError("%s: %s" % (method, answer["error"]["message"]))
            return answer["result"]

    # --- The page ---
    def open(self, url):
        before = self.loads
        self.command("Page.navigate", url=url)
        end = time.monotonic() + 30
        while self.loads == before:
            if time.monotonic() > end:
                raise TimeoutError("not loaded: " + url)
            self.value("1")
            time.sleep(0.02)

    def value(self, expression):
        result = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(expression + ": " + result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def wait(self, expression, timeout=30):
        """Until the expression is true; returns its value."""
        end = time.monotonic() + timeout
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise TimeoutError("not within %s s: %s" % (timeout, expression))
            time.sleep(0.05)
        return value

    def _middle(self, selector):
        return self.value("(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'});"
                          "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
                          % json.dumps(selector))

    def click(self, selector):
        """A mouse's click in the middle of the element."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector, text):
        """Replaces what the field holds."""
        self.value("(() => { const e = document.querySelector(%s); e.focus(); e.select(); })()" % json.dumps(selector))
        if text:
            self.command("Input.insertText", text=text)
        else:
            self.value("document.execCommand('delete')")

    def choose_file(self, selector, *paths):
        """As from the browser's dialog."""
        node = self.command("Runtime.evaluate", expression="document.querySelector(%s)" % json.dumps(selector))["result"]
        self.command("DOM.setFileInputFiles", files=[str(path) for path in paths], objectId=node["objectId"])

    def drop(self, selector, *paths):
        """Files that are dragged there from outside the browser."""
        x, y = self._middle(selector)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.command("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def press(self, key, *, ctrl=False, shift=False):
        """A key of the keyboard: "Tab", "Enter", "Escape", "ArrowRight", " "."""
        code, number = {"Tab": ("Tab", 9), "Enter": ("Enter", 13), "Escape": ("Escape", 27), " ": ("Space", 32),
                        "ArrowLeft": ("ArrowLeft", 37), "ArrowRight": ("ArrowRight", 39), "ArrowDown": ("ArrowDown", 40)}[key]
        text = {"Enter": "\r", " ": " "}.get(key)
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" and not ctrl else {}
            self.command("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number,
                         modifiers=2 * ctrl + 8 * shift, **more)

    @contextlib.contextmanager
    def script(self, source):
        """Runs before the scripts of every page that is opened meanwhile."""
        name = self.command("Page.addScriptToEvaluateOnNewDocument", source=source)["identifier"]
        try:
            yield
        finally:
            self.command("Page.removeScriptToEvaluateOnNewDocument", identifier=name)

    def save_to(self, folder):
        """Where downloads go."""
        self.command("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def tree(self):
        """What a screen reader is told: the nodes of the accessibility tree."""
        return [node for node in self.command("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]

    def text(self, selector):
        return self.value("(document.querySelector(%s) || {}).textContent" % json.dumps(selector))

    def viewport(self, width, height, scale=1, mobile=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                     mobile=mobile)

    def scheme(self, name):
        """"light" or "dark": what the system is said to prefer."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path, whole=False):
        data = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
