"""Writes images in the OCI's layout (https://github.com/opencontainers/image-spec), without a daemon and with nothing but Python.

The same entries give the same bytes: names are in order, owners are numbers, and no time is that of the writing.
"""
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import stat
import tarfile
import zlib

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclasses.dataclass
class Entry:
    """A path of a layer: a file (`source`, or `content`), a symbolic link (`target`), or a folder."""
    source: pathlib.Path | None = None
    content: bytes | None = None
    target: str | None = None
    mode: int | None = None  # default: 0755 of folders and programs, 0644 of other files
    owner: int = 0
    time: int | None = None  # seconds since 1970; default: the source's, else 0


class Layer:
    """Entries by path, relative to the root. Folders on the way to an entry are made."""

    def __init__(self, comment):
        self.comment = comment
        self.entries = {}

    def add(self, path, entry):
        path = str(path).strip("/")
        if not path or ".." in path.split("/"):
            raise ValueError(f"no path of a layer: {path!r}")
        for parent in list(pathlib.PurePosixPath(path).parents)[:-1]:
            self.entries.setdefault(str(parent), Entry())
        self.entries[path] = entry

    def add_tree(self, folder, place, time=None):
        """All files and links below `folder`, at `place`."""
        folder = pathlib.Path(folder)
        for name in sorted(folder.rglob("*")):
            path = pathlib.PurePosixPath(place) / name.relative_to(folder).as_posix()
            if name.is_symlink():
                self.add(path, Entry(target=os.readlink(name), time=time))
            elif name.is_file():
                self.add(path, Entry(source=name, time=time))

    def _write_tar(self, out):
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(self.entries):
                entry = self.entries[path]
                info = tarfile.TarInfo(path)
                info.uid = info.gid = entry.owner
                info.mtime = entry.time or 0
                data = None
                if entry.target is not None:
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.target, 0o777
                elif entry.source is None and entry.content is None:
                    info.type, info.mode = tarfile.DIRTYPE, entry.mode or 0o755
                else:
                    executable = False
                    if entry.source is not None:
                        about = entry.source.stat()
                        info.size, executable = about.st_size, bool(about.st_mode & stat.S_IXUSR)
                        info.mtime = int(about.st_mtime) if entry.time is None else entry.time
                        data = open(entry.source, "rb")
                    else:
                        info.size, data = len(entry.content), io.BytesIO(entry.content)
                    info.mode = entry.mode or (0o755 if executable else 0o644)
                tar.addfile(info, data)
                if data is not None:
                    data.close()

    def write(self, blobs):
        """Compresses it into the folder `blobs`. Returns its descriptor and the digest of what it is when unpacked."""
        part = blobs / "layer.part"
        with open(part, "wb") as file:
            compressed = _Compressed(file)
            self._write_tar(compressed)
            compressed.finish()
        name = compressed.outer.hexdigest()
        part.rename(blobs / name)
        descriptor = {"mediaType": LAYER, "digest": "sha256:" + name, "size": (blobs / name).stat().st_size}
        return descriptor, "sha256:" + compressed.inner.hexdigest()


class _Compressed(io.RawIOBase):
    """gzip without a time in its header; both digests on the way."""

    def __init__(self, file):
        super().__init__()
        self._file, self._zlib = file, zlib.compressobj(6, zlib.DEFLATED, 31)
        self.inner, self.outer = hashlib.sha256(), hashlib.sha256()
        self._position = 0

    def writable(self):
        return True

    def tell(self):
        return self._position

    def _emit(self, data):
        self.outer.update(data)
        self._file.write(data)

    def write(self, data):
        self.inner.update(data)
        self._position += len(data)
        self._emit(self._zlib.compress(data))
        return len(data)

    def finish(self):
        self._emit(self._zlib.flush())


def _write_json(blobs, value):
    data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    name = hashlib.sha256(data).hexdigest()
    (blobs / name).write_bytes(data)
    return {"digest": "sha256:" + name, "size": len(data)}


def write_layout(folder, layers, config, architecture, created, annotations, name):
    """Makes `folder`, which must not be there: an image of these layers. `config` is what containers start with, `created` a
    time as RFC 3339 has it, `name` the image's ("tandem:1.0"). Returns the manifest's digest."""
    folder = pathlib.Path(folder)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    written = [layer.write(blobs) for layer in layers]
    image = {
        "architecture": architecture, "os": "linux", "created": created, "config": config,
        "rootfs": {"type": "layers", "diff_ids": [digest for _, digest in written]},
        "history": [{"created": created, "created_by": layer.comment} for layer in layers],
    }
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **_write_json(blobs, image)},
                "layers": [descriptor for descriptor, _ in written], "annotations": annotations}
    descriptor = {"mediaType": MANIFEST, **_write_json(blobs, manifest), "platform": {"architecture": architecture, "os": "linux"}}
    # podman and skopeo read the first name, containerd and docker the second.
    descriptor["annotations"] = {"org.opencontainers.image.ref.name": name,
                                 "io.containerd.image.name": name if "/" in name else "docker.io/library/" + name}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]}
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True, separators=(",", ":")))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return descriptor["digest"]


def write_archive(folder, file, time):
    """The layout `folder` as one file, for `podman load` and `docker load`."""
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            info = tar.gettarinfo(path, path.relative_to(folder).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime, info.mode = time, 0o755 if path.is_dir() else 0o644
            if path.is_dir():
                tar.addfile(info)
            else:
                with open(path, "rb") as data:
                    tar.addfile(info, data)


def unpack(folder, root):
    """Unpacks the image of a layout into the folder `root`, as its containers would see it. Checks every digest."""
    folder, root = pathlib.Path(folder), pathlib.Path(root)

    def blob(descriptor):
        path = folder / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
        data = path.read_bytes()
        if len(data) != descriptor["size"] or "sha256:" + hashlib.sha256(data).hexdigest() != descriptor["digest"]:
            raise ValueError(f"{path} is not what its descriptor says")
        return data

    (descriptor,) = json.loads((folder / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(descriptor))
    image = json.loads(blob(manifest["config"]))
    for layer, diff_id in zip(manifest["layers"], image["rootfs"]["diff_ids"], strict=True):
        data = zlib.decompress(blob(layer), 31)
        if "sha256:" + hashlib.sha256(data).hexdigest() != diff_id:
            raise ValueError(f"{layer['digest']} does not unpack to {diff_id}")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(root, numeric_owner=True)
    return image
