#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/audio_fuzzer: a short sound in each kind of file that libsndfile reads and writes.

    make_sound_seeds.py DIR      needs soundfile and NumPy; the files are of soundfile 0.14 (libsndfile 1.2.2)
"""
import pathlib, sys

import numpy as np
import soundfile

# name: rate, channels, samples, format, encoding, byte order
SEEDS = {
    "pcm.wav": (16000, 1, 600, "WAV", "PCM_16", "FILE"),
    "float_6.wav": (48000, 6, 60, "WAV", "FLOAT", "FILE"),
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
    "dwvw.aiff": (16000, 1, 300, "AIFF", "DWVW_16", "FILE"),
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
    "old/g723.au": (8000, 1, 400, "AU", "G723_24", "FILE"),
    "old/g721.au": (8000, 1, 400, "AU", "G721_32", "LITTLE"),
    "old/pcm.paf": (16000, 1, 200, "PAF", "PCM_24", "FILE"),
    "old/pcm.svx": (16000, 1, 200, "SVX", "PCM_16", "FILE"),
    "old/pcm.nist": (16000, 1, 100, "NIST", "PCM_16", "FILE"),
    "old/ulaw.voc": (8000, 1, 200, "VOC", "ULAW", "FILE"),
    "old/pcm.ircam": (16000, 1, 100, "IRCAM", "PCM_16", "FILE"),
    "old/pcm.mat4": (16000, 1, 100, "MAT4", "DOUBLE", "FILE"),
    "old/pcm.mat5": (16000, 1, 100, "MAT5", "FLOAT", "FILE"),
    "old/pcm.pvf": (16000, 1, 100, "PVF", "PCM_16", "FILE"),
    "old/dpcm.xi": (44100, 1, 200, "XI", "DPCM_16", "FILE"),
    "old/pcm.htk": (16000, 1, 100, "HTK", "PCM_16", "FILE"),
    "old/pcm.sds": (16000, 1, 100, "SDS", "PCM_16", "FILE"),
    "old/pcm.avr": (16000, 1, 100, "AVR", "PCM_16", "FILE"),
    "old/alaw.wve": (8000, 1, 200, "WVE", "ALAW", "FILE"),
    "old/pcm.mpc": (16000, 1, 100, "MPC2K", "PCM_16", "FILE"),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "old").mkdir(parents=True, exist_ok=True)
    for name, (rate, channels, samples, container, encoding, order) in SEEDS.items():
        t = np.arange(samples)[:, None]
        sound = 0.3 * np.sin(0.17 * t) + 0.2 * np.sin(1e-4 * t * t) * (1 + np.arange(channels)) / channels
        soundfile.write(folder / name, sound, rate, encoding, order, container)


main()
