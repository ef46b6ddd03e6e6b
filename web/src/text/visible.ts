// Names, labels and messages come from the API and are hostile input: this makes characters visible that would hide or
// reorder others, and cuts what is too long. Everything is shown through text nodes, never as HTML.

/** Control, format (bidi, zero width), line and paragraph separators, private use and lone surrogates. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;
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

/** At most `limit` characters, the last one an ellipsis where something is cut; never half of a surrogate pair. */
export function cut(text: string, limit: number): string {
  const characters = text.length <= limit ? null : [...text];
  return characters === null || characters.length <= limit ? text : `${characters.slice(0, limit - 1).join("")}…`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
