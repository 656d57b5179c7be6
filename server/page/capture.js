// Runs on the browser's audio thread: hands samples of 16 bits over, a tenth of a second at a time.
registerProcessor('capture', class extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Int16Array(Math.ceil(sampleRate / 10));
    this.filled = 0;
  }
  process([[channel]]) {
    for (const x of channel || []) {
      this.samples[this.filled++] = 32767 * Math.max(-1, Math.min(1, x));
      if (this.filled < this.samples.length) continue;
      this.port.postMessage(this.samples.slice());
      this.filled = 0;
    }
    return true;
  }
});
