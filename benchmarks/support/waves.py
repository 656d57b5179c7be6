"""Sound for benchmarks: one channel of 16-bit samples at RATE, as array("h")."""
import array, subprocess, wave

RATE = 16000


def read_wave(path):
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ar", str(RATE), "-ac", "1", "-f", "s16le", "-"], check=True,
                         stdout=subprocess.PIPE).stdout
    return array.array("h", raw)


def write_wave(path, samples):
    """Returns the path."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(RATE)
        out.writeframes(samples.tobytes())
    return path
