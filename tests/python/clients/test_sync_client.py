"""_sync.py of the client is what scripts/make_sync_client makes of _async.py."""
import shutil
import subprocess
import sys

from conftest import ROOT

SCRIPT = ROOT / "scripts" / "make_sync_client"
FOLDER = "python/tandem_infer/client"


def check(script):
    return subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)


def test_it_is_fresh():
    done = check(SCRIPT)
    assert done.returncode == 0, done.stderr


def test_what_is_stale_is_seen(tmp_path):
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / SCRIPT.name
    shutil.copy(SCRIPT, script)
    client = tmp_path / FOLDER
    shutil.copytree(ROOT / FOLDER, client)
    source = client / "_async.py"
    source.write_text(source.read_text().replace('"/version"', '"/other"'))
    done = check(script)
    assert done.returncode == 1 and "make_sync_client" in done.stderr
    assert subprocess.run([sys.executable, str(script)]).returncode == 0
    assert check(script).returncode == 0 and '"/other"' in (client / "_sync.py").read_text()
    source.write_text(source.read_text() + "\nasyncio = None\n")  # a name without a counterpart
    done = check(script)
    assert done.returncode == 1 and "asyncio" in done.stderr
