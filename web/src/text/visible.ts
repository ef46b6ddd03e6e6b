// Names, labels and messages come from the API and are hostile input: this makes characters visible that would hide or
// reorder others, and cuts what is too long. Everything is shown through text nodes, never as HTML.

/**
 * Controls, formats (bidi, zero width, tags), lone surrogates, private use, unassigned; all separators but the plain space; letters, marks
 * and symbols without a shape (fillers, joiners, variation selectors). kit/shown_text.py has the same set; tests/kit/hidden_characters.json lists it.
 */
const HIDDEN = /(?! )[\p{C}\p{Z}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180D\u180F\u2800\u3164\uFE00-\uFE0F\uFFA0\u{13441}\u{13442}\u{1D159}\u{E0100}-\u{E01EF}]/gu;
/** More than two marks on one letter grow into the lines above and below. */
const STACKED_MARKS = /(\p{M}{2})(\p{M}+)/gu;

function codeOf(character: string): string {
  return `‹U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** The text with every hidden character replaced by its code, such as ‹U+202E›. */
export function visible(text: string): string {
  const few = text.replace(STACKED_MARKS, (_all, kept: string, more: string) => `${kept}‹+${[...more].length} marks›`);
  return few.replace(HIDDEN, codeOf);
}

/**
 * At most `limit` characters, with an ellipsis where something is cut; never half of a surrogate pair. The last `tail` characters stay: names
 * of the pods of one workload differ at the end only.
 */
export function cut(text: string, limit: number, tail = 0): string {
  const characters = text.length <= limit ? null : [...text];
  if (characters === null || characters.length <= limit) return text;
  const end = tail > 0 ? characters.slice(-tail) : [];
  return `${characters.slice(0, limit - 1 - end.length).join("")}…${end.join("")}`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
