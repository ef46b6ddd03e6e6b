// The columns of the stream: base64 of one byte a node, or of two bytes a node in little endian.

export function bytesOf(base64: string): Uint8Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

export function countsOf(base64: string): Uint16Array {
  const bytes = bytesOf(base64);
  const counts = new Uint16Array(bytes.length >> 1);
  for (let at = 0; at < counts.length; at++) counts[at] = bytes[2 * at] | (bytes[2 * at + 1] << 8);
  return counts;
}

export interface ServerEvent {
  event: string;
  data: string;
}

/** Takes a text/event-stream in pieces and hands out whole events; comments and unknown fields are left out. */
export class EventParser {
  #rest = "";
  #event = "message";
  #data: string[] = [];

  push(piece: string): ServerEvent[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop()!;
    return lines.flatMap((line) => this.#line(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  #line(line: string): ServerEvent[] {
    if (line === "") return this.#finish();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
    return [];
  }

  #finish(): ServerEvent[] {
    const event = { event: this.#event, data: this.#data.join("\n") };
    const whole = this.#data.length > 0;
    [this.#event, this.#data] = ["message", []];
    return whole ? [event] : [];
  }
}
