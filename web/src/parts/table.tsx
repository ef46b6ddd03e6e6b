// Tables with a caption, that scroll inside their own focusable region.

import type { ComponentChildren } from "preact";
import { visible } from "../text/visible.ts";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are set to the right. */
  numeric?: boolean;
  /** The cell names the row. */
  head?: boolean;
}

interface TableProps<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row, at: number) => string;
  empty?: string;
  captionShown?: boolean;
}

export function Table<Row>({ caption, columns, rows, keyOf, empty = "Nothing to show.", captionShown = false }: TableProps<Row>) {
  if (rows.length === 0) return <p class="soft empty">{empty}</p>;
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class={captionShown ? "" : "unseen"}>{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <th scope="col" class={column.numeric ? "numeric" : ""} key={column.title}>{visible(column.title)}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, at) => <tr key={keyOf(row, at)}>{columns.map((column) => cellOf(column, row))}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

function cellOf<Row>(column: Column<Row>, row: Row) {
  const className = column.numeric ? "numeric" : "";
  return column.head
    ? <th scope="row" class={className} key={column.title}>{column.cell(row)}</th>
    : <td class={className} key={column.title}>{column.cell(row)}</td>;
}
