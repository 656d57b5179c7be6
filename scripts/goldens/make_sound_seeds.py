#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/audio_fuzzer: a short sound in each kind of file.

    make_sound_seeds.py DIR      needs soundfile, NumPy and the program ffmpeg; the files are of soundfile 0.14 (libsndfile
                                 1.2.2) and of FFmpeg 5.1
"""
import pathlib, subprocess, sys

import numpy as np
import soundfile

# name: rate, channels, samples, format, encoding, byte order
SEEDS = {
    "pcm.wav": (16000, 1, 600, "WAV", "PCM_16", "FILE"),
    "alaw.wav": (8000, 1, 300, "WAV", "ALAW", "FILE"),
    "ima.wav": (8000, 2, 600, "WAV", "IMA_ADPCM", "FILE"),
    "ms.wav": (8000, 1, 600, "WAV", "MS_ADPCM", "FILE"),
    "gsm.wav": (8000, 1, 640, "WAV", "GSM610", "FILE"),
    "nms.wav": (8000, 1, 640, "WAV", "NMS_ADPCM_32", "FILE"),
    "big.wav": (22050, 1, 200, "WAV", "PCM_24", "BIG"),
    "extensible.wav": (16000, 2, 100, "WAVEX", "PCM_32", "FILE"),
    "pcm.rf64": (16000, 1, 200, "RF64", "PCM_16", "FILE"),
    "pcm.w64": (16000, 1, 200, "W64", "PCM_16", "FILE"),
    "pcm24.aiff": (16000, 1, 300, "AIFF", "PCM_24", "FILE"),
    "ima.aiff": (16000, 1, 600, "AIFF", "IMA_ADPCM", "FILE"),
    "alac.caf": (16000, 2, 400, "CAF", "ALAC_16", "FILE"),
    "alac24.caf": (44100, 1, 300, "CAF", "ALAC_24", "FILE"),
    "float.caf": (16000, 1, 100, "CAF", "FLOAT", "FILE"),
    "stereo_44k.flac": (44100, 2, 400, "FLAC", "PCM_16", "FILE"),
    "24.flac": (16000, 1, 200, "FLAC", "PCM_24", "FILE"),
    "vorbis.ogg": (8000, 1, 1200, "OGG", "VORBIS", "FILE"),
    "opus.ogg": (48000, 2, 2400, "OGG", "OPUS", "FILE"),
    "opus_8k.ogg": (8000, 1, 800, "OGG", "OPUS", "FILE"),
    "layer3.mp3": (16000, 1, 1200, "MP3", "MPEG_LAYER_III", "FILE"),
    "stereo.mp3": (44100, 2, 1200, "MP3", "MPEG_LAYER_III", "FILE"),
    "old/pcm.nist": (16000, 1, 100, "NIST", "PCM_16", "FILE"),
    "old/ulaw.voc": (8000, 1, 200, "VOC", "ULAW", "FILE"),
    "old/pcm.ircam": (16000, 1, 100, "IRCAM", "PCM_16", "FILE"),
    "old/pcm.pvf": (16000, 1, 100, "PVF", "PCM_16", "FILE"),
    "old/pcm.avr": (16000, 1, 100, "AVR", "PCM_16", "FILE"),
}

# What soundfile does not write. name: options of ffmpeg
OTHERS = {
    "aac.m4a": "-c:a aac", "alac.m4a": "-c:a alac", "fragments.mp4": "-c:a aac -movflags frag_keyframe+empty_moov",
    "film.mp4": "-f lavfi -i testsrc=d=0.2:s=16x16:r=5 -c:v mpeg4 -c:a aac", "pcm.mov": "-c:a pcm_s16be", "aac.aac": "-c:a aac",
    "opus.webm": "-c:a libopus", "flac.mkv": "-c:a flac", "vorbis.mkv": "-c:a libvorbis", "flac.ogg": "-c:a flac",
    "speex.ogg": "-c:a libspeex -ar 16000", "v2.wma": "-c:a wmav2", "v1.wma": "-c:a wmav1", "ac3.ac3": "-c:a ac3",
    "eac3.eac3": "-c:a eac3", "mp2.ts": "-c:a mp2", "mp3.flv": "-c:a libmp3lame", "pcm.avi": "-c:a pcm_s16le",
    "wavpack.wv": "-c:a wavpack", "tta.tta": "-c:a tta", "g726.wav": "-c:a g726 -ar 8000 -ac 1",
    "dts.dts": "-c:a dca -strict -2 -t 0.02", "truehd.thd": "-c:a truehd -strict -2", "aac.loas": "-c:a aac -f latm",
    "gsm.gsm": "-c:a libgsm -ar 8000 -ac 1", "pcm.sox": "-c:a pcm_s32le -ar 8000", "pcm.au": "-c:a pcm_s16be -ar 8000",
    "mp2.mpg": "-c:a mp2 -f mpeg", "nellymoser.flv": "-c:a nellymoser -ar 8000 -ac 1", "swf.flv": "-c:a adpcm_swf -ar 11025",
    "s302m.ts": "-c:a s302m -strict -2 -ar 48000 -ac 2 -t 0.02", "g722.wav": "-c:a g722 -ar 16000 -ac 1",
    "g723.wav": "-c:a g723_1 -ar 8000 -ac 1 -b:a 6300", "yamaha.wav": "-c:a adpcm_yamaha -ar 8000",
    "aac.3gp": "-c:a aac -ar 8000 -t 0.05", "ima_qt.mov": "-c:a adpcm_ima_qt -ar 8000 -t 0.05",
}

# AMR, which ffmpeg only reads: frames of the highest and the lowest rate. Any bits are sound.
SPEECH = {"nb.amr": (b"#!AMR\n", 0x3C, 31), "wb.amr": (b"#!AMR-WB\n", 0x04, 17)}


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "old").mkdir(parents=True, exist_ok=True)
    for name, (rate, channels, samples, container, encoding, order) in SEEDS.items():
        t = np.arange(samples)[:, None]
        sound = 0.3 * np.sin(0.17 * t) + 0.2 * np.sin(1e-4 * t * t) * (1 + np.arange(channels)) / channels
        soundfile.write(folder / name, sound, rate, encoding, order, container)
    for name, options in OTHERS.items():
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "sine=300:d=0.12:r=44100", "-bitexact",
                        *options.split(), str(folder / name)], check=True)
    for name, (head, kind, size) in SPEECH.items():
        frames = [bytes([kind] + [(31 * i + 7 * n) % 256 for i in range(size)]) for n in range(6)]
        (folder / name).write_bytes(head + b"".join(frames))


main()
