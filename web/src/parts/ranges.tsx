// Ranges of durations on one logarithmic scale: from a low to a high value, with marks between.

import { logarithmic, type Scale } from "../scale.ts";
import type { Spread } from "./figure.tsx";
import { useWidth } from "./hooks.ts";
import { LatencyAxisBelow } from "./ticks.tsx";

export interface RangeRow {
    name: string;
    low: number;
    high: number;
    /** Marked values, such as the median and the 99th percentile. */
    marks: number[];
    /** Words below the marks, as far as there is room. */
    words?: string[];
    /** Class of the marks. */
    kind?: string;
}

/** The range of a distribution, with its median and 99th percentile. */
export function rangeOf(figures: Spread) {
    return { low: figures.min, high: figures.max, marks: [figures.p50, figures.p99] };
}

const ROW_PX = 30;
const AXIS_PX = 24;
const MARGIN_PX = 34;
/** Width of a character. */
const CHARACTER_PX = 7;
/** Below this width, the names stand above their ranges. */
const NARROW_PX = 560;

export function Ranges({ label, rows }: { label: string; rows: RangeRow[] }) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const isNarrow = width < NARROW_PX;
    const rowPx = isNarrow ? ROW_PX + 12 : ROW_PX;
    const left = isNarrow ? MARGIN_PX : Math.min(width * 0.3, 320);
    const [low, high] = extentOf(rows);
    const [from, to] = [4, rows.length * rowPx + 4];
    const scale = logarithmic(low, high, left, width - MARGIN_PX);
    return (
        <div class="ranges" ref={ref}>
            {width > 0 && (
                <svg width={width} height={to + AXIS_PX} role="img" aria-label={label}>
                    <LatencyAxisBelow scale={scale} low={low} high={high} from={from} to={to} />
                    {rows.map((row, i) => {
                        const y = from + i * rowPx + (isNarrow ? 24 : rowPx / 2);
                        return (
                            <g key={`${i} ${row.name}`} class={row.kind}>
                                <text x={0} y={isNarrow ? y - 10 : y + 4}>
                                    {row.name}
                                </text>
                                <line
                                    class="range"
                                    x1={scale.at(row.low)}
                                    x2={scale.at(row.high)}
                                    y1={y}
                                    y2={y}
                                />
                                {row.marks.map((mark, j) => (
                                    <circle
                                        key={j}
                                        class={`mark mark-${j}`}
                                        cx={scale.at(mark)}
                                        cy={y}
                                        r={5}
                                    />
                                ))}
                                {row.words && (
                                    <Words row={row} scale={scale} y={y + 16} to={width} />
                                )}
                            </g>
                        );
                    })}
                </svg>
            )}
        </div>
    );
}

/** The words of marks. Those that would cover the words before them or leave the picture are left
 * out; the table has them. */
function Words({ row, scale, y, to }: { row: RangeRow; scale: Scale; y: number; to: number }) {
    let free = 0;
    const shown = row.marks.map((mark, i) => {
        const [x, words] = [scale.at(mark), row.words?.[i] ?? ""];
        const end = x + words.length * CHARACTER_PX;
        if (x < free || end > to) {
            return null;
        }
        free = end + CHARACTER_PX;
        return (
            <text key={i} x={x - 5} y={y}>
                {words}
            </text>
        );
    });
    return <>{shown}</>;
}

/** The least and the greatest value, a little widened. */
function extentOf(rows: RangeRow[]): [number, number] {
    const all = rows.flatMap((row) => [row.low, row.high, ...row.marks]).filter((v) => v > 0);
    if (all.length === 0) {
        return [1, 10];
    }
    return [Math.min(...all) * 0.9, Math.max(...all) * 1.1];
}
