"""Sound by PyAV, as runtime/media/decoder/sound has it: what `ffmpeg -ar RATE -ac 1 -f f32le` makes of a file."""
from __future__ import annotations

import io
import struct
import wave
from typing import Any, List, Optional

import av
import av.error
import av.logging
import numpy as np

from .serve import DONE, SAMPLES, Answer, DecodeError, Source

# runtime/media/decoder/sound/codecs.cc has the same lists.
_DEMUXERS = ("aac,ac3,aiff,amr,amrnb,amrwb,au,caf,dts,eac3,flac,gsm,loas,mp3,mpc,mpc8,nistsphere,ogg,tta,truehd,voc,w64,wav,wv,"
             "xwma,ircam,sox,pvf,paf,avr,asf,avi,flv,matroska,webm,mov,mp4,m4a,3gp,3g2,mpeg,mpegts")
_DECODERS = ("aac,aac_latm,ac3,eac3,alac,amrnb,amrwb,dca,flac,g723_1,gsm,gsm_ms,mlp,mp1,mp1float,mp2,mp2float,mp3,mp3float,mpc7,"
             "mpc8,nellymoser,opus,s302m,speex,truehd,tta,vorbis,wavpack,wmalossless,wmapro,wmav1,wmav2,wmavoice,adpcm_ms,"
             "adpcm_ima_wav,adpcm_ima_qt,g722,evrc,ilbc,qcelp,g726,g726le,adpcm_swf,adpcm_yamaha,adpcm_ct,adpcm_sbpro_2,"
             "adpcm_sbpro_3,adpcm_sbpro_4," + ",".join(sorted(name for name in av.codecs_available if name.startswith("pcm_"))))
_OPTIONS = {"format_whitelist": _DEMUXERS, "codec_whitelist": _DECODERS, "scan_all_pmts": "1"}
_BLOCK = 1 << 15
_LOUDEST = 1e6
_LEAST_RATE, _MOST_RATE = 1000, 768000
_SECONDS_MISSED = 0.5
_MOST_LINES = 8


def prepare() -> None:
    """Decodes a moment of silence: what is loaded when it is first used, is loaded."""
    av.logging.set_level(av.logging.ERROR)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(3200))
    file.seek(0)
    with av.open(file, "r", options=_OPTIONS) as container:
        mixer = _Mixer(16000)
        for frame in container.decode(audio=0):
            mixer.add(frame)
        mixer.finish()
    try:
        av.open(io.BytesIO(b"no sound"), "r", options=_OPTIONS)
    except av.error.FFmpegError as error:
        _words(error)


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class _Mixer:
    """Frames as they are → mono samples of one rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._resampler: Any = None
        self._last: Any = None  # format, rate and layout of the frame before
        self._frames = 0  # at the rate of the frame before
        self._seconds = 0.0  # at other rates before

    @property
    def seconds(self) -> float:
        """Of all frames, by their own samples and rates."""
        return self._seconds + (self._frames / self._last[1] if self._last else 0.0)

    def add(self, frame: Any) -> List[Any]:
        kind = (frame.format.name, frame.sample_rate, frame.layout.name)
        if kind != self._last:  # what was still in the filter is dropped, as by ffmpeg
            self._seconds, self._frames = self.seconds, 0
            self._last = kind
            self._resampler = av.AudioResampler(format="flt", layout="mono", rate=self._rate)
        self._frames += frame.samples
        frame.pts = None
        return [_samples(out) for out in self._resampler.resample(frame)]

    def finish(self) -> List[Any]:
        return [_samples(out) for out in self._resampler.resample(None)] if self._resampler is not None else []


def _samples(frame: Any) -> Any:
    return np.frombuffer(frame.planes[0], dtype=np.float32, count=frame.samples).copy()


class _Reading:
    def __init__(self, source: Source, rate: int, channels: int, seconds: float, answer: Answer) -> None:
        self._source, self._rate, self._channels, self._most = source, rate, channels, seconds
        self._answer = answer
        self._mixer = _Mixer(rate)
        self._block: List[Any] = []
        self._waiting = self._given = 0
        self.lines: List[str] = []

    def run(self) -> None:
        try:
            container = av.open(self._source, "r", options=_OPTIONS, buffer_size=1 << 16)
        except MemoryError:
            raise
        except Exception as error:
            raise DecodeError(f"is no sound that can be read ({_words(error)})") from None
        with container:
            track = self._track(container)
            self._decode(container, track)
            for samples in self._mixer.finish():
                self._take(samples)
            self._hand_on()
            if self._given == 0:
                raise DecodeError("has no samples" + (f" ({self.lines[0]})" if self.lines else ""))
            stated = float(track.duration * track.time_base) if track.duration else 0.0
        have = self._given / self._rate
        if stated > have * 1.01 + _SECONDS_MISSED:
            self.note(f"the file says that it has {stated:.1f} seconds of sound, and has {have:.1f}")

    def _track(self, container: Any) -> Any:
        """The one that ffmpeg takes: one that is marked as the default, then that with most channels, then the first."""
        tracks = container.streams.audio
        if not tracks:
            raise DecodeError("has no track of sound")

        def rank(track: Any) -> Any:
            context = track.codec_context
            return (bool(int(track.disposition) & 1), context.channels if context is not None else 0)

        best = max(tracks, key=rank)
        if best.codec_context is None or best.codec_context.name not in _DECODERS.split(","):
            name = best.codec_context.name if best.codec_context is not None else "unknown"
            raise DecodeError(f"has sound of a kind that is not decoded ({name})")
        best.codec_context.thread_count = 1
        return best

    def _decode(self, container: Any, track: Any) -> None:
        packets = container.demux(track)
        while True:
            try:
                packet = next(packets, None)
            except av.error.FFmpegError as error:
                self.note(f"cannot be read to its end: {_words(error)}")
                packet = None
            try:
                frames = track.codec_context.decode(packet)
            except av.error.EOFError:
                frames = []
            except av.error.FFmpegError as error:
                self.note(f"a packet was skipped: {_words(error)}")
                frames = []
            for frame in frames:
                self._hear(frame)
            if packet is None or packet.size == 0 and packet.dts is None:
                return

    def _hear(self, frame: Any) -> None:
        channels, rate = frame.layout.nb_channels, frame.sample_rate
        if not 1 <= channels <= self._channels:
            raise DecodeError(f"has {channels} channels, from 1 to {self._channels} are taken")
        if not _LEAST_RATE <= rate <= _MOST_RATE:
            raise DecodeError(f"has {rate} samples a second, from {_LEAST_RATE} to {_MOST_RATE} are taken")
        try:
            made = self._mixer.add(frame)
        except av.error.FFmpegError as error:
            raise DecodeError(f"has {channels} channels at {rate} samples a second, which cannot be converted "
                              f"({_words(error)})") from None
        for samples in made:
            self._take(samples)

    def _take(self, samples: Any) -> None:
        self._block.append(samples)
        self._waiting += len(samples)
        if self._waiting >= _BLOCK:
            self._hand_on()

    def _hand_on(self) -> None:
        if not self._waiting:
            return
        samples = np.concatenate(self._block)
        wrong = np.flatnonzero(~(np.abs(samples) <= _LOUDEST))
        if wrong.size:
            raise DecodeError(f"sample {self._given + int(wrong[0])} is not finite, or a million times too loud")
        self._given += len(samples)
        self._block, self._waiting = [], 0
        if self._given / self._rate > self._most:
            raise DecodeError(f"has more than the {round(self._most)} seconds of sound that are taken", large=True)
        self._answer.data(SAMPLES, memoryview(samples.tobytes()))

    @property
    def seconds(self) -> float:
        return self._mixer.seconds

    def note(self, line: str) -> None:
        if line not in self.lines and len(self.lines) < _MOST_LINES:
            self.lines.append(line)


def decode(source: Source, rate: int, channels: int, seconds: float, answer: Answer) -> None:
    reading: Optional[_Reading] = None
    with av.logging.Capture() as logs:
        reading = _Reading(source, rate, channels, seconds, answer)
        reading.run()
    for _, name, text in logs:
        reading.note(f"{name}: {text.strip().rstrip('.')}" if name else text.strip().rstrip("."))
    answer.warn(reading.lines)
    answer.frame(DONE, struct.pack("=d", reading.seconds))
