// Bars that are made of parts, on a common linear scale.

import { useWidth } from "./hooks.ts";

export interface StackPart {
    value: number;
    /** Class of the shape. */
    kind: string;
    /** Text in the part, if it fits. */
    letter?: string;
}

export interface StackRow {
    name: string;
    parts: StackPart[];
    /** Text behind the bar. */
    figure: string;
}

const ROW_PX = 26;
const BAR_PX = 16;
const LETTER_PX = 16;
/** Width of a character. */
const CHARACTER_PX = 7;
/** Below this width, the names stand above their bars. */
const NARROW_PX = 560;

interface Props {
    label: string;
    rows: StackRow[];
    /** The value of the longest bar of several pictures on one scale. */
    longest?: number;
}

/** The longest of these bars. */
export function longestOf(rows: StackRow[]): number {
    return Math.max(...rows.map(({ parts }) => sum(parts)), Number.MIN_VALUE);
}

export function Stack({ label, rows, longest: of }: Props) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const isNarrow = width < NARROW_PX;
    const rowPx = isNarrow ? ROW_PX + 14 : ROW_PX;
    const left = isNarrow
        ? 0
        : Math.min(width * 0.34, longest(rows.map((row) => row.name)) * CHARACTER_PX + 12);
    const figures = longest(rows.map((row) => row.figure)) * CHARACTER_PX + 12;
    const most = of ?? longestOf(rows);
    const px = (value: number) => (value / most) * Math.max(width - left - figures, 10);
    return (
        <div class="stack" ref={ref}>
            {width > 0 && (
                <svg width={width} height={rows.length * rowPx} role="img" aria-label={label}>
                    {rows.map((row, i) => (
                        <g key={`${i} ${row.name}`} transform={`translate(0 ${i * rowPx})`}>
                            <text x={0} y={14}>
                                {row.name}
                            </text>
                            <g transform={`translate(${left} ${isNarrow ? 18 : 2})`}>
                                <Parts parts={row.parts} px={px} />
                                <text x={px(sum(row.parts)) + 6} y={12}>
                                    {row.figure}
                                </text>
                            </g>
                        </g>
                    ))}
                </svg>
            )}
        </div>
    );
}

function Parts({ parts, px }: { parts: StackPart[]; px: (value: number) => number }) {
    let x = 0;
    const placed = parts.map((part) => {
        const at = x;
        x += px(part.value);
        return { ...part, at, width: px(part.value) };
    });
    return (
        <>
            {placed.map((part, i) => (
                <g key={i}>
                    <rect class={part.kind} x={part.at} width={part.width} height={BAR_PX} />
                    {part.letter && part.width >= LETTER_PX && (
                        <text class={`letter ${part.kind}`} x={part.at + part.width / 2} y={12}>
                            {part.letter}
                        </text>
                    )}
                </g>
            ))}
        </>
    );
}

function longest(words: string[]): number {
    return Math.max(...words.map((word) => word.length), 0);
}

function sum(parts: StackPart[]): number {
    return parts.reduce((total, part) => total + part.value, 0);
}
