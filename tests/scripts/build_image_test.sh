#!/bin/sh
# scripts/build_image: the layout that it writes, and the image in a root of its own, as the user that containers have, with no
# other file of this machine. Exit status 77: python3 or dpkg is missing, the program is not built, or there is no right to
# make a root (root, or user namespaces).
set -eu
source=$1
build=$2
export PYTHONDONTWRITEBYTECODE=1
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# --- the writer ---
python3 - "$source" "$folder" <<'END'
import hashlib, json, pathlib, sys, tarfile
source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, source + "/packaging/oci")
from image_layout import Entry, Layer, unpack, write_archive, write_layout

tree = folder / "tree"
(tree / "bin").mkdir(parents=True)
(tree / "bin/run").write_text("program")
(tree / "bin/run").chmod(0o700)
(tree / "text").write_text("a" * 100000)
(tree / "text").chmod(0o600)
(tree / "link").symlink_to("text")


def image(name, order):
    layer = Layer("one")
    layer.add_tree(tree, "opt", 5)
    other = Layer("two")
    for path, entry in order([("tmp", Entry(mode=0o1777)), ("etc/x", Entry(content=b"x")), ("home/me", Entry(owner=7)),
                              ("etc/" + 150 * "y", Entry(content=b"long"))]):
        other.add(path, entry)
    digest = write_layout(folder / name, [layer, other], {"User": "7:7"}, "amd64", "1970-01-01T00:00:09Z", {"a": "b"}, "me:1")
    write_archive(folder / name, folder / (name + ".tar"), 9)
    return digest


digest = image("a", lambda entries: entries)
assert image("b", reversed) == digest, "the order of entries counts"
assert (folder / "a.tar").read_bytes() == (folder / "b.tar").read_bytes()
assert json.loads((folder / "a/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
index = json.loads((folder / "a/index.json").read_text())
(descriptor,) = index["manifests"]
assert descriptor["digest"] == digest and descriptor["platform"] == {"architecture": "amd64", "os": "linux"}
assert descriptor["annotations"]["org.opencontainers.image.ref.name"] == "me:1"
for blob in (folder / "a/blobs/sha256").iterdir():
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
config = unpack(folder / "a", folder / "root")
assert config["config"] == {"User": "7:7"} and len(config["rootfs"]["diff_ids"]) == len(config["history"]) == 2
assert (folder / "root/opt/bin/run").stat().st_mode & 0o7777 == 0o755, "modes are not this machine's"
assert (folder / "root/opt/text").stat().st_mode & 0o7777 == 0o644
assert (folder / "root/opt/link").read_text() == "a" * 100000
assert (folder / "root/tmp").stat().st_mode & 0o7777 == 0o1777
with tarfile.open(folder / "a.tar") as tar:
    assert {"index.json", "oci-layout", "blobs/sha256/" + digest.removeprefix("sha256:")} <= set(tar.getnames())
for path in ("", "/", "../x", "a/../../x"):
    try:
        Layer("bad").add(path, Entry())
    except ValueError:
        continue
    sys.exit(f"no error for {path!r}")
# What was changed on the way is noticed.
layer = json.loads((folder / "a/blobs/sha256" / digest.removeprefix("sha256:")).read_text())["layers"][0]
blob = folder / "a/blobs/sha256" / layer["digest"].removeprefix("sha256:")
blob.write_bytes(blob.read_bytes()[:-1] + b"x")
try:
    unpack(folder / "a", folder / "broken")
    sys.exit("a changed layer was unpacked")
except ValueError:
    pass
END

# --- mistakes ---
status=0
"$source/scripts/build_image" --build "$folder" --no-compile 2>"$folder/log" || status=$?
if [ $status != 1 ] || ! grep -q "no folder of a build" "$folder/log"; then
  echo "FAILED: status $status without a build: $(cat "$folder/log")"
  exit 1
fi

# --- the image ---
command -v dpkg-query >/dev/null || { echo "skipped: no dpkg-query"; exit 77; }
[ -x "$build/bin/tandem" ] || { echo "skipped: $build/bin/tandem is not built"; exit 77; }
if grep -Eq '^TANDEM_SANITIZE:[A-Z]+=.' "$build/CMakeCache.txt"; then
  echo "skipped: a program with sanitizers needs more than its libraries"
  exit 77
fi
for out in one two; do
  SOURCE_DATE_EPOCH=1700000000 "$source/scripts/build_image" --no-compile --build "$build" --out "$folder/$out" \
    --name "test:1" --model "$source/examples/demo-model" >"$folder/$out.log" || { cat "$folder/$out.log"; exit 1; }
done
[ "$(tail -n 1 "$folder/one.log")" = "$(tail -n 1 "$folder/two.log")" ] || { echo "FAILED: two images differ"; exit 1; }

namespaces="--mount --pid --fork"
[ "$(id -u)" = 0 ] || namespaces="--map-auto --map-root-user $namespaces"
# shellcheck disable=SC2086
unshare $namespaces true 2>/dev/null || { echo "skipped: needs root, or user namespaces (unshare)"; exit 77; }
mkdir "$folder/image"
cat >"$folder/run" <<'END'
set -eu
source=$1
folder=$2
root=$folder/image
python3 -c '
import sys
sys.path.insert(0, sys.argv[1] + "/packaging/oci")
from image_layout import unpack
config = unpack(sys.argv[2] + "/one", sys.argv[2] + "/image")["config"]
assert config["Entrypoint"] == ["/usr/bin/tandem", "serve"] and config["Cmd"] == ["/models/demo-model"], config
assert config["User"] == "10001:10001" and "8000/tcp" in config["ExposedPorts"]
print("\n".join(config["Env"]))
import ssl
assert len(ssl.create_default_context(cafile=sys.argv[2] + "/image/etc/ssl/certs/ca-certificates.crt").get_ca_certs()) > 50
' "$source" "$folder" >"$folder/env"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
# As the image says, at a free port. (There is neither env nor a shell in the image.)
inside="env -i $(cat "$folder/env") TANDEM_PORT=0 TANDEM_CLIENT_PORT=0 /usr/sbin/chroot --userspec=10001:10001 $root"
text="A tool to find duplicate files on a disk. It compares sizes and checksums."
$inside /usr/bin/tandem generate /models/demo-model --dtype float32 --max-new-tokens 20 "$text" >"$folder/text"
$inside /usr/libexec/tandem/tandem-decoder --self-test || [ $? = 77 ]
[ ! -e "$root/bin/sh" ] || { echo "FAILED: there is a shell"; exit 1; }
$inside /usr/bin/sleep 0
$inside /usr/bin/tandem serve /models/demo-model 2>"$folder/serve.log" &
server=$!
tries=0
until url=$(sed -n 's,.*HTTP at http://0.0.0.0:\([0-9]*\)/.*,http://127.0.0.1:\1,p' "$folder/serve.log") && [ -n "$url" ] &&
  $inside /usr/bin/curl -fsS -o /dev/null "$url/health" 2>/dev/null; do
  tries=$((tries + 1))
  if [ $tries -gt 150 ] || ! kill -0 $server; then
    cat "$folder/serve.log"
    exit 1
  fi
  sleep 0.2
done
$inside /usr/bin/curl -fsS "$url/v1/completions" -H 'Content-Type: application/json' \
  -d '{"prompt": "A tool to find duplicate files.", "max_tokens": 5}' | grep -q text_completion
kill -TERM $server
wait $server || { cat "$folder/serve.log"; exit 1; }
grep -q stopped "$folder/serve.log"
END
# shellcheck disable=SC2086
unshare $namespaces sh "$folder/run" "$source" "$folder" || exit 1
"$build/bin/tandem" generate "$source/examples/demo-model" --dtype float32 --max-new-tokens 20 \
  "A tool to find duplicate files on a disk. It compares sizes and checksums." >"$folder/here"
cmp "$folder/here" "$folder/text"
