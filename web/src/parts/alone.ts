// Which values of a line a plot shows as points.

/** The places of values with nothing beside them. */
export function aloneIn(values: ArrayLike<number | null | undefined>): number[] {
  const known = (at: number) => values[at] !== null && values[at] !== undefined;
  return Array.from(values, (_value, at) => at).filter((at) => known(at) && !known(at - 1) && !known(at + 1));
}
