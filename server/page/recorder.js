// The microphone: samples as they are recorded, and any end of them as a WAV file.
export class Recorder {
  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({audio: {channelCount: 1}});
    const source = this.listen();
    await this.context.resume();
    await this.context.audioWorklet.addModule(new URL('capture.js', import.meta.url));
    this.rate = this.context.sampleRate;
    this.pieces = [];
    this.dropped = this.size = 0;  // samples that are gone, that there are in all
    this.node = new AudioWorkletNode(this.context, 'capture', {numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit'});
    this.node.port.onmessage = ({data}) => {
      this.size += data.length;
      if (this.taker) this.taker(data);
      else this.pieces.push(data);
    };
    source.connect(this.node);
  }
  // At OpenAI's rate; at the microphone's where the browser does not convert (Firefox).
  listen() {
    for (const options of [{sampleRate: 24000}, {}]) {
      this.context = new AudioContext(options);
      try {
        return this.context.createMediaStreamSource(this.stream);
      } catch (e) {
        this.context.close();
        if (!options.sampleRate) throw e;
      }
    }
  }
  // Pieces go there from now on, those that are here first.
  give(taker) {
    for (const piece of this.pieces.splice(0)) taker(piece);
    this.taker = taker;
  }
  // From there on.
  file(from) {
    while (this.pieces.length && this.dropped + this.pieces[0].length <= from) this.dropped += this.pieces.shift().length;
    const count = this.size - from, samples = new Int16Array(count);
    let at = this.dropped - from;
    for (const piece of this.pieces) {
      samples.set(at < 0 ? piece.subarray(-at) : piece, Math.max(0, at));
      at += piece.length;
    }
    const header = new DataView(new ArrayBuffer(44));
    const text = (at, word) => [...word].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
    text(0, 'RIFF'); header.setUint32(4, 36 + 2 * count, true); text(8, 'WAVEfmt ');
    header.setUint32(16, 16, true); header.setUint16(20, 1, true); header.setUint16(22, 1, true);
    header.setUint32(24, this.rate, true); header.setUint32(28, 2 * this.rate, true);
    header.setUint16(32, 2, true); header.setUint16(34, 16, true);
    text(36, 'data'); header.setUint32(40, 2 * count, true);
    return new Blob([header, samples], {type: 'audio/wav'});
  }
  stop() {
    if (this.node) this.node.port.onmessage = null;
    if (this.stream) for (const track of this.stream.getTracks()) track.stop();
    if (this.context) this.context.close();
  }
}
