import assert from "node:assert/strict";
import { test } from "node:test";
import { aloneIn } from "../src/parts/alone.ts";
import characters from "../../tests/kit/hidden_characters.json";
import cases from "../../tests/model/percents.json";
import { age, clock, duration, number, percent, quantity } from "../src/text/amounts.ts";
import { cut, plural, visible } from "../src/text/visible.ts";

test("control, bidi and zero-width characters are shown by their codes", () => {
  assert.equal(visible("a\u202Eb"), "a‹U+202E›b");
  assert.equal(visible("line\nbreak\u0000"), "line‹U+000A›break‹U+0000›");
  assert.equal(visible("zero\u200Bwidth\u2066"), "zero‹U+200B›width‹U+2066›");
  assert.equal(visible("lone \uD800 surrogate"), "lone ‹U+D800› surrogate");
  assert.equal(visible("<b>plain & ünï</b>"), "<b>plain & ünï</b>");
});

test("all characters that readers do not see are shown by their codes, and no others", () => {
  const hidden = new Set<number>();
  for (const [first, last] of characters.hidden) {
    for (let code = parseInt(first, 16); code <= parseInt(last, 16); code++) hidden.add(code);
  }
  const wrong: string[] = [];
  for (let code = 0; code < 0x110000; code++) {
    const letter = String.fromCodePoint(code);
    const name = code.toString(16).toUpperCase().padStart(4, "0");
    const wanted = hidden.has(code) || /\p{Cn}/u.test(letter) ? `a‹U+${name}›b` : `a${letter}b`;
    if (visible(`a${letter}b`) !== wanted) wrong.push(name);
  }
  assert.deepEqual(wrong, []);
  for (const text of characters.shown) assert.equal(visible(text), text);
});

test("a letter keeps two marks and the rest are counted", () => {
  assert.equal(visible("e\u0301\u0302"), "e\u0301\u0302");
  assert.equal(visible("e" + "\u0301".repeat(50)), "e\u0301\u0301‹+48 marks›");
});

test("long text is cut with an ellipsis, and never inside a character", () => {
  assert.equal(cut("short", 5), "short");
  assert.equal(cut("longer", 5), "long…");
  assert.equal(cut("😀😀😀", 3), "😀😀😀");
  assert.equal(cut("😀😀😀😀", 3), "😀😀…");
  assert.equal(cut("shop/cart-with-a-long-name-5d8f7-x2b9k", 20, 11), "shop/car…5d8f7-x2b9k");
  assert.equal(cut("shop/cart-x2b9k", 20, 11), "shop/cart-x2b9k");
});

test("counts have their noun", () => {
  assert.deepEqual([plural(0, "pod"), plural(1, "pod"), plural(5000, "pod")], ["0 pods", "1 pod", "5,000 pods"]);
});

test("durations have two units at most", () => {
  const texts = [0, 0.00018, 0.0009999, 0.0042, 0.25, 12, 59.6, 60, 302, 3600, 90061, NaN, -1].map(duration);
  assert.deepEqual(texts, ["0 s", "180 µs", "1 ms", "4.2 ms", "250 ms", "12 s", "60 s", "1m", "5m 2s", "1h", "1d 1h", "–", "–"]);
});

test("ages count from the clock of the cluster", () => {
  assert.equal(age("2026-01-01T00:00:00.000Z", Date.parse("2026-01-01T00:01:30Z") / 1000), "1m 30s");
  assert.equal(age("2026-01-01T00:00:10.000Z", Date.parse("2026-01-01T00:00:00Z") / 1000), "0 s");
  assert.equal(age(undefined, 5), "–");
  assert.equal(clock("2026-01-01T07:08:09.123Z"), "07:08:09");
});

test("shares and numbers are short", () => {
  assert.deepEqual([percent(0.543), percent(0.004), percent(1), percent(NaN)], ["54 %", "0 %", "100 %", "–"]);
  assert.deepEqual([number(1234), number(1234.5678), number(1.234), number(53.53)], ["1,234", "1,235", "1.23", "53.5"]);
});

test("amounts of the answers are quantities", () => {
  assert.deepEqual([quantity("cpu", 1500), quantity("cpu", 2000), quantity("memory", 17179869184), quantity("memory", 1536 * 2 ** 20), quantity("nvidia.com/gpu", 8)],
    ["1500m", "2", "16Gi", "1.5Gi", "8"]);
});

test("shares are rounded as the commands round them", () => {
  for (const [share, whole, tenths] of cases as [number, string, string][]) {
    assert.deepEqual([percent(share), percent(share, 1)].map((text) => text.replace(" ", "")), [whole, tenths]);
  }
});

test("a value between two gaps is a point, others are on the line", () => {
  assert.deepEqual(aloneIn([null, 1, null, 2, 3, null, 4]), [1, 6]);
  assert.deepEqual(aloneIn([]), []);
});
