#!/bin/sh
# In a bare root of Debian (scripts/test_fresh --steps wheel): installs a wheel into a virtual environment, and uses it.
#
#   tests/scripts/wheel_in_root.sh SOURCE_TREE WHEEL
set -eu
root=$1
wheel=$2
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/dev/null
apt-get -q -y install --no-install-recommends python3-venv >/dev/null
python3 -m venv /root/wheel
/root/wheel/bin/pip install -q "$wheel"
model=$root/examples/demo-model
text="A tool to find duplicate files on a disk. It compares sizes and checksums."
/root/wheel/bin/python - "$model" "$text" >/root/by-library <<'END'
import sys
from tandem_infer import LLM, pipeline
model, text = sys.argv[1:]
with LLM(model, dtype="float32") as llm:
    print(llm.generate(text, max_new_tokens=20)[0].text)
    assert pipeline("summarization", llm=llm)(text, max_new_tokens=20)[0]["summary_text"]
END
/root/wheel/bin/tandem generate "$model" --dtype float32 --max-new-tokens 20 "$text" >/root/by-program
cmp /root/by-library /root/by-program

# README's three commands, with models of the repository in the place of the hub's, and a sound that PyAV decodes.
tandem=/root/wheel/bin/tandem
printf 'The house is small. It has two rooms.\n\nThe garden is large.\n' >/root/report.txt
$tandem summarize "$model" "$text" | grep -q "duplicate files"
$tandem translate "$root/tests/data/goldens/mbart50-tiny" /root/report.txt --from English --to German --split sentences \
  >/root/report.de.txt
[ "$(grep -c '^$' /root/report.de.txt)" = 1 ] || { echo "wheel: the translation has lost its empty line"; exit 1; }
(cd "$root/tests/python" && /root/wheel/bin/python - "$root" <<'END'
import pathlib, sys, types
conftest = types.ModuleType("conftest")  # all that is asked of it
conftest.GOLDENS = pathlib.Path(sys.argv[1]) / "tests/data/goldens"
sys.modules["conftest"] = conftest
import av, speech_model
speech_model.make_whisper(pathlib.Path("/root/whisper"))
pathlib.Path("/root/talk.wav").write_bytes(speech_model.wav(3))
with av.open("/root/talk.wav") as wav, av.open("/root/talk.m4a", "w") as m4a:
    stream = m4a.add_stream("aac", rate=16000)
    for frame in wav.decode(audio=0):
        m4a.mux(stream.encode(frame))
    m4a.mux(stream.encode(None))
END
)
$tandem transcribe /root/whisper /root/talk.m4a --format srt >/root/talk.srt
$tandem transcribe /root/whisper /root/talk.wav --format verbose_json | grep -q '"duration": *3'

folder=$(/root/wheel/bin/python -c 'import tandem_infer, os; print(os.path.dirname(tandem_infer.__file__))')
for program in tandem-decoder tandem-page-decoder; do
  status=0
  "$folder/bin/$program" --self-test || status=$?
  case $status in
    0 | 77) ;;
    *) echo "wheel: the self-test of $program ended with status $status" >&2; exit 1 ;;
  esac
done
/root/wheel/bin/tandem serve "$model" --port 8123 --client-port 0 2>/root/serve.log &
server=$!
/root/wheel/bin/python - "$text" <<'END'
import sys
from tandem_infer.client import Client
with Client("http://127.0.0.1:8123") as client:
    client.wait_until_ready(60)
    assert client.complete(sys.argv[1], max_tokens=20).text
END
kill -TERM $server
wait $server
if grep -i warning /root/serve.log; then
  echo "wheel: the server of a plain start warns"
  exit 1
fi
echo "wheel: $(/root/wheel/bin/python --version), $(cat /root/by-library)"
