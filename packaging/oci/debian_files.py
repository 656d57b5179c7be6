"""Files of this machine's Debian packages for an image: libraries of programs, and what must go with them."""
import os
import pathlib
import re
import subprocess

from image_layout import Entry, Layer


class Fault(Exception):
    """Something that whoever builds the image has to mend."""


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if result.returncode != 0:
        raise Fault(f"{' '.join(map(str, command))}: {result.stderr.strip() or result.returncode}")
    return result.stdout


def libraries_of(program):
    """Paths of the libraries that the dynamic linker loads for a program, as it names them."""
    out = []
    for line in run("ldd", str(program)).splitlines():
        if "not found" in line:
            raise Fault(f"{program}: {line.strip()}")
        found = re.match(r"\s*(?:\S+ => )?(/\S+) \(0x", line)
        if found:
            out.append(found[1])
    return out


def packages_of(files):
    """The Debian packages of files."""
    # Lists may have the path of before /bin and /lib were links into /usr.
    names = {file: [file, file.removeprefix("/usr")] if re.match("/usr/(s?bin|lib)", file) else [file] for file in files}
    asked = sorted({path for paths in names.values() for path in paths})
    answer = subprocess.run(["dpkg-query", "-S", *asked], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")).stdout
    owners = {}
    for line in answer.splitlines():
        owner, _, path = line.rpartition(": ")
        if not owner.startswith("diversion by"):
            owners[path] = owner.split(",")[0].strip()
    out = set()
    for file, paths in names.items():
        found = [owners[path] for path in paths if path in owners]
        if not found:
            raise Fault(f"{file} belongs to no Debian package: an image has no other files")
        out.add(found[0])
    return out


class DebianLayer:
    """A layer of files of Debian's packages."""

    def __init__(self):
        self.layer = Layer("libraries of Debian's packages")
        self.packages = {"ca-certificates", "base-files"}
        self.files = set()
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink("/" + name):
                self.layer.add(name, Entry(target="usr/" + name))

    def add_file(self, path):
        """A file and the links to it; its folder is the one that it has here, below /usr."""
        real = os.path.realpath(path)
        self.files.add(real)
        self.layer.add(real, Entry(source=pathlib.Path(real)))
        name = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if name != real:
            self.layer.add(name, Entry(target=os.path.relpath(real, os.path.dirname(name))))

    def add_program(self, path):
        self.add_file(path)
        self.add_libraries(path)

    def add_libraries(self, program):
        for library in libraries_of(program):
            self.add_file(library)

    def add_certificates(self):
        """The authorities of the package, without those of this machine."""
        folder = pathlib.Path("/usr/share/ca-certificates/mozilla")
        files = sorted(folder.glob("*.crt"))
        if not files:
            raise Fault(f"{folder} is empty: the package ca-certificates is missing")
        bundle = b"".join(file.read_bytes().rstrip() + b"\n" for file in files)
        self.layer.add("etc/ssl/certs/ca-certificates.crt", Entry(content=bundle))

    def add_system_files(self, user):
        """What programs expect of a system: users, names of hosts, folders for temporary files."""
        self.add_file("/usr/lib/os-release")
        self.layer.add("etc/os-release", Entry(target="../usr/lib/os-release"))
        home = "/var/lib/tandem"
        self.layer.add("etc/passwd", Entry(content=(
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            f"tandem:x:{user}:{user}:Tandem server:{home}:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n").encode()))
        self.layer.add("etc/group", Entry(content=f"root:x:0:\ntandem:x:{user}:\nnogroup:x:65534:\n".encode()))
        self.layer.add("etc/nsswitch.conf", Entry(content=b"passwd: files\ngroup: files\nhosts: files dns\n"))
        for folder in ("tmp", "var/tmp"):
            self.layer.add(folder, Entry(mode=0o1777))
        for folder in (home, "/cache/huggingface"):
            self.layer.add(folder, Entry(owner=user))
        for folder in ("dev", "proc", "sys", "run", "models", "root"):
            self.layer.add(folder, Entry())

    def finish(self):
        """Licences of all packages, and their entries of dpkg's list, by which scanners know them."""
        self.packages |= packages_of(self.files)
        for package in sorted(self.packages):
            name = package.split(":")[0]
            copyright_ = pathlib.Path("/usr/share/doc", name, "copyright")
            if copyright_.exists():
                self.layer.add(f"usr/share/doc/{name}/copyright", Entry(content=copyright_.read_bytes()))
        for status in run("dpkg-query", "--status", *sorted(self.packages)).split("\n\n"):
            name = re.match(r"Package: (\S+)", status)[1]
            self.layer.add(f"var/lib/dpkg/status.d/{name}", Entry(content=status.rstrip().encode() + b"\n"))
        for licence in sorted(pathlib.Path("/usr/share/common-licenses").iterdir()):
            if licence.is_symlink():
                self.layer.add(licence, Entry(target=os.readlink(licence)))
            else:
                self.layer.add(licence, Entry(content=licence.read_bytes()))
        return self.layer
