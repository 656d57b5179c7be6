#!/bin/sh
# What is packaged around the program names only what the program has: metrics, flags, variables, files.
# Exit status 77: python3 is missing, or the program is not built.
set -eu
source=$1
build=$2
command -v python3 >/dev/null || exit 77
[ -x "$build/bin/tandem" ] || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for script in postinst prerm postrm; do
  sh -n "$source/packaging/debian/$script"
  [ -x "$source/packaging/debian/$script" ]
done
if command -v bash >/dev/null; then
  bash -n "$source/packaging/completions/tandem.bash"
  bash -n "$source/packaging/slurm/tandem.sbatch"
fi

# --- cmake --install puts everything where it belongs, and keeps a configuration that is there ---
cmake --install "$build" --component server --prefix "$folder/prefix" >"$folder/log" 2>&1 || {
  cat "$folder/log"
  exit 1
}
for file in bin/tandem libexec/tandem/tandem-decoder lib/systemd/system/tandem.service etc/tandem/tandem.toml etc/default/tandem \
  share/bash-completion/completions/tandem share/zsh/site-functions/_tandem share/fish/vendor_completions.d/tandem.fish \
  share/doc/tandem/README.md share/doc/tandem/serving.md share/doc/tandem/examples/kubernetes/base/deployment.yaml \
  share/doc/tandem/examples/slurm/tandem.sbatch share/tandem/grafana/tandem.json share/tandem/prometheus/alerts.yml; do
  [ -f "$folder/prefix/$file" ] || { echo "FAILED: $file is not installed"; exit 1; }
done
"$folder/prefix/libexec/tandem/tandem-decoder" --help >/dev/null
if [ -f "$build/bin/tandem-page-decoder" ]; then "$folder/prefix/libexec/tandem/tandem-page-decoder" --help >/dev/null; fi
if ldd "$folder/prefix/bin/tandem" | grep -E 'libmpi|libopen-(rte|pal)'; then
  echo "FAILED: tandem is linked with MPI, which is for its plugin"
  exit 1
fi
if [ -f "$build/bin/libtandem_mpi.so" ] && [ ! -f "$folder/prefix/lib/tandem/libtandem_mpi.so" ]; then
  echo "FAILED: MPI's plugin is not in lib/tandem"
  exit 1
fi
# A rank without the plugin says what is missing.
status=0
OMPI_COMM_WORLD_RANK=0 TANDEM_MPI_PLUGIN=/nowhere/libtandem_mpi.so "$folder/prefix/bin/tandem" generate \
  "$source/examples/demo-model" "A text." >"$folder/log" 2>&1 || status=$?
if [ $status != 1 ] || ! grep -q "MPI cannot be used: .*TANDEM_MPI_PLUGIN" "$folder/log"; then
  echo "FAILED: status $status of a rank without MPI's plugin: $(cat "$folder/log")"
  exit 1
fi
if ldd "$folder/prefix/bin/tandem" | grep -E 'libav(codec|format|util)|libsw|libpng|libjpeg|libtiff|libwebp|libgif|libpoppler'; then
  echo "FAILED: these libraries are the decoder's alone"
  exit 1
fi
ls "$folder/prefix"/share/man/man1/tandem.1* >/dev/null
grep -q "^ExecStart=$folder/prefix/bin/tandem serve --config $folder/prefix/etc/tandem/tandem.toml" \
  "$folder/prefix/lib/systemd/system/tandem.service"
if grep -n '@[a-z]*@' "$folder/prefix/lib/systemd/system/tandem.service"; then exit 1; fi
echo 'port = 1' >"$folder/prefix/etc/tandem/tandem.toml"
cmake --install "$build" --component server --prefix "$folder/prefix" >"$folder/log" 2>&1
[ "$(cat "$folder/prefix/etc/tandem/tandem.toml")" = 'port = 1' ]
if find "$folder/prefix" -name '*.a' -o -name '*.h' | grep .; then
  echo "FAILED: these belong to the component client"
  exit 1
fi

# --- the Debian package, where lintian is installed ---
if command -v lintian >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
  cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder/deb" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  lintian --fail-on error "$folder"/deb/*.deb >"$folder/log" 2>&1 || {
    cat "$folder/log"
    echo "FAILED: lintian finds errors in the Debian package"
    exit 1
  }
fi

# --- the plugin for GPUs: apart from the server, and where the installed program finds it ---
if find "$folder/prefix" -name 'libtandem_cuda*' | grep .; then
  echo "FAILED: the server's files have CUDA's plugin"
  exit 1
fi
if [ -f "$build/bin/libtandem_cuda.so" ]; then
  cmake --install "$build" --component cuda --prefix "$folder/prefix" >"$folder/log" 2>&1
  [ -f "$folder/prefix/lib/tandem/libtandem_cuda.so" ] || { echo "FAILED: the plugin is not in lib/tandem"; exit 1; }
  CUDA_VISIBLE_DEVICES= "$folder/prefix/bin/tandem" generate --model "$source/examples/demo-model" --device cuda text \
    >"$folder/log" 2>&1 && { echo "FAILED: there should be no GPU"; exit 1; }
  grep -q 'cuda cannot be had' "$folder/log" || { cat "$folder/log"; exit 1; }
  if grep -q 'is not beside the program' "$folder/log"; then
    echo "FAILED: the installed program does not find the plugin"
    exit 1
  fi
fi

# --- names ---
"$source/scripts/make_man_and_completions" --list "$build/bin/tandem" >"$folder/names"
exec python3 - "$source" "$folder/names" <<'EOF'
import json
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
packaging = source / "packaging"
failures = []


def check(good, *words):
    if not good:
        failures.append(" ".join(map(str, words)))


# Of the program: commands, flags and variables.
commands, flags, variables = [], {}, set()
for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
    kind, *words = line.split()
    if kind == "command":
        commands.append(tuple(words))
    else:
        name, variable, *command = words
        flags.setdefault(tuple(command), []).append(name)
        variables.add(variable)
serve = flags[("serve",)]
check(len(commands) > 10 and len(serve) > 40 and "TANDEM_PORT" in variables, "the program's help was not understood")

# Manual page and completions know every command and flag, and no other.
page = (packaging / "man/tandem.1").read_text().replace("\\-", "-")
sections = dict(re.findall(r'^\.SS "tandem ([\w ]+?) (?:\[|SUBCOMMAND|MODEL).*\n((?:(?!\.S[SH]).*\n)*)', page, re.M))
fish = (packaging / "completions/tandem.fish").read_text()
bash = (packaging / "completions/tandem.bash").read_text()
zsh = (packaging / "completions/_tandem").read_text()
for command in commands:
    words = " ".join(command)
    in_bash = re.search(rf'^    "{words}"\) flags="(.*)" ;;$', bash, re.M)
    in_zsh = re.search(rf"^_{'_'.join(('tandem', *command))}\(\) {{\n((?:(?!}}).*\n)*)", zsh, re.M)
    check(in_bash and in_zsh, "completions lack the command:", words)
    if not (in_bash and in_zsh):
        continue
    if command:
        check(words in sections, "the manual page lacks the command:", words)
        named = set(re.findall(r"\\fB(--?[\w-]+)\\fR", sections.get(words, "")))
        check(named == set(flags[command]) - {"-h", "--help", "--help-all"}, words, "manual page differs in:",
              *sorted(named ^ (set(flags[command]) - {"-h", "--help", "--help-all"})))
        check(re.search(rf"^complete .*-a {command[-1]} ", fish, re.M), "fish lacks the command:", words)
    check({f for f in in_bash[1].split() if f[0] == "-"} == set(flags[command]), words, "bash differs")
    check(set(re.findall(r"^ +'\*?(--?[\w-]+)\[", in_zsh[1], re.M)) == set(flags[command]), words, "zsh differs")
    for flag in flags[command]:
        check(re.search(rf"-l {flag[2:]}\b" if flag[:2] == "--" else rf"-s {flag[1:]}\b", fish), "fish lacks", flag)
for variable in variables - {"-", "OPENAI_API_KEY"}:
    check(variable in page, "the manual page lacks", variable)

# Dashboard and alerts name metrics that there are.
code = (source / "server/metrics/metrics.cc").read_text()
registered = dict((name, kind) for kind, name in re.findall(
    r"\b(gauges?|counters?|histogram)\(\s*\"(tandem:\w+)\"", code))
check(len(registered) > 15, "the metrics were not found in server/metrics/metrics.cc")
dashboard = json.loads((packaging / "grafana/tandem.json").read_text())
expressions = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
queries = [v["definition"] for v in dashboard["templating"]["list"] if "definition" in v]
alerts = (packaging / "prometheus/alerts.yml").read_text()
others = [(packaging / "kubernetes/components/autoscaling/hpa.yaml").read_text()]
used = set()
for text in expressions + queries + [alerts] + others:
    for name in re.findall(r"\btandem:\w+", text):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        check(name in registered if base == name else registered.get(base) == "histogram", "no such metric:", name)
        used.add(base)
check(not set(registered) - used, "no panel shows", *sorted(set(registered) - used))
check(len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"]), "panels with the same id")
for a in dashboard["panels"]:
    box = a["gridPos"]
    check(box["x"] + box["w"] <= 24, "a panel is too wide:", a["title"])
    for b in dashboard["panels"]:
        other = b["gridPos"]
        apart = (box["x"] + box["w"] <= other["x"] or other["x"] + other["w"] <= box["x"]
                 or box["y"] + box["h"] <= other["y"] or other["y"] + other["h"] <= box["y"])
        check(a is b or apart, "panels overlap:", a["title"], b["title"])

# Configurations name flags and variables that there are.
for name in re.findall(r"^#? ?([a-z-]+) = ", (packaging / "config/tandem.toml").read_text(), re.M):
    check(f"--{name}" in serve, "tandem.toml: no such flag:", name)
for file in ("config/tandem.default", "docker/Dockerfile", "docker/compose.yaml", "systemd/tandem.service.in",
             "kubernetes/base/deployment.yaml", "slurm/tandem.sbatch"):
    for name in re.findall(r"\bTANDEM_[A-Z_]+\b", (packaging / file).read_text()):
        build_option = name in ("TANDEM_TESTS", "TANDEM_BENCHMARKS", "TANDEM_EXAMPLES", "TANDEM_FUZZERS")
        check(name in variables or name == "TANDEM_" or build_option, file, "no such variable:", name)
for name in re.findall(r"^ +- (--[a-z-]+)", (packaging / "kubernetes/base/deployment.yaml").read_text(), re.M):
    check(name in serve, "deployment.yaml: no such flag:", name)

# Whoever stops the server waits longer than it drains.
drain = int(re.search(r"--drain-timeout.*\n.*\(default (\d+)", page)[1])
for file, pattern in (("systemd/tandem.service.in", r"TimeoutStopSec=(\d+)"),
                      ("docker/compose.yaml", r"stop_grace_period: (\d+)s"),
                      ("kubernetes/base/deployment.yaml", r"terminationGracePeriodSeconds: (\d+)")):
    check(int(re.search(pattern, (packaging / file).read_text())[1]) > drain, file, "does not wait for the drain")

try:
    import yaml
except ImportError:
    print("no yaml module: YAML not parsed")
else:
    for file in sorted(packaging.rglob("*.y*ml")):
        try:
            documents = list(yaml.safe_load_all(file.read_text()))
            check(documents and all(isinstance(d, dict) for d in documents), file, "is no YAML mapping")
        except yaml.YAMLError as e:
            check(False, file, e)

print("\n".join("FAILED " + f for f in failures))
sys.exit(bool(failures))
EOF
