// Tables, and the table that stands beside each picture.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { counted } from "../quantity.ts";

/** Number of rows shown at first. */
const AT_FIRST = 100;

export interface Column {
    head: string;
    isNumber?: boolean;
}

/** Columns of words, then of numbers, then of words again. */
export function columns(words: string[], numbers: string[], remarks: string[] = []): Column[] {
    const of = (isNumber: boolean) => (head: string) => ({ head, isNumber });
    return [...words.map(of(false)), ...numbers.map(of(true)), ...remarks.map(of(false))];
}

export interface TableProps {
    caption: string;
    columns: Column[];
    /** The cells of each row; the first one names the row. */
    rows: ComponentChildren[][];
}

/** A table; a long one shows its first rows and a button. */
export function Table({ caption, columns, rows }: TableProps) {
    const [isWhole, setWhole] = useState(false);
    const shown = isWhole ? rows : rows.slice(0, AT_FIRST);
    const head = (column: Column) => (
        <th key={column.head} scope="col" class={column.isNumber ? "number" : undefined}>
            {column.head}
        </th>
    );
    return (
        // Wide tables scroll by themselves; the keyboard reaches them.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region needs the focus.
        <section class="scroll" tabIndex={0} aria-label={`Table: ${caption}`}>
            <table class="twin">
                <caption>{caption}</caption>
                <thead>
                    <tr>{columns.map(head)}</tr>
                </thead>
                <tbody>
                    {shown.map((cells, i) => (
                        <Row key={i} cells={cells} columns={columns} />
                    ))}
                </tbody>
            </table>
            {shown.length < rows.length && (
                <button type="button" onClick={() => setWhole(true)}>
                    Show all {counted(rows.length, "row")}
                </button>
            )}
        </section>
    );
}

function Row({ cells, columns }: { cells: ComponentChildren[]; columns: Column[] }) {
    return (
        <tr>
            {cells.map((cell, i) =>
                i === 0 ? (
                    <th key={i} scope="row">
                        {cell}
                    </th>
                ) : (
                    <td key={i} class={columns[i]?.isNumber ? "number" : undefined}>
                        {cell}
                    </td>
                ),
            )}
        </tr>
    );
}

interface TwinProps extends Omit<TableProps, "rows"> {
    rows: TableProps["rows"] | (() => TableProps["rows"]);
}

/** The table beside a picture. It is made only when it is opened: some have thousands of cells. */
export function Twin({ rows, ...table }: TwinProps) {
    const [isOpen, setOpen] = useState(false);
    const made = useMemo(
        () => (isOpen ? (typeof rows === "function" ? rows() : rows) : []),
        [isOpen, rows],
    );
    return (
        <details class="twin" onToggle={(event) => setOpen(event.currentTarget.open)}>
            <summary>As a table: {table.caption}</summary>
            {isOpen && <Table {...table} rows={made} />}
        </details>
    );
}
